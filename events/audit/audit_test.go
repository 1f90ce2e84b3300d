package audit

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

func audited(records []events.Record) Report {
	a := newAudit()
	for _, r := range records {
		a.Add(r)
	}
	return a.Report()
}

func recordsOf(stories []*story) (all []events.Record) {
	for _, s := range stories {
		all = append(all, s.records...)
	}
	return all
}

// findingsOf names what a report has found, each kind of thing with its number.
func findingsOf(r Report) []string {
	counts := map[string]int{
		"explained": r.Explained.Count, "unproven": r.Unproven.Count, "missing": r.RecordHoles.Count, "late": r.Late.Count,
		"uncovered":   r.Uncovered.Count,
		"not stopped": r.Tails.Count, "open": r.OpenHolds.Count, "not judged": r.NotJudged.Count,
		"unreadable": r.Unreadable.Count, "joined": r.Joined.Count, "unchecked": r.Unchecked,
		"unjudged": r.Unjudged, "holes": r.MessageHoles.Count, "judgedEarly": r.JudgedEarly.Count, "unknown": r.Unknown,
		"dropped": r.Dropped,
	}
	for _, v := range r.Violations.First {
		counts[string(v.Kind)] += 1 + v.More
	}
	var all []string
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		if n := counts[what]; n > 0 {
			all = append(all, fmt.Sprintf("%s: %d", what, n))
		}
	}
	return all
}

// verdicts are logs and what an audit has to say of each.
type verdicts map[string]struct {
	stories []*story
	verdict Verdict
	found   string // as findingsOf names it
	says    string // a part of the report
}

func (v verdicts) check(t *testing.T) {
	for name, test := range v {
		t.Run(name, func(t *testing.T) {
			records := recordsOf(test.stories)
			report := audited(records)
			if found := strings.Join(findingsOf(report), ", "); report.Verdict != test.verdict || found != test.found {
				t.Errorf("%s with %s, want %s with %s\n%v", report.Verdict, found, test.verdict, test.found, report)
			}
			if !strings.Contains(report.String(), test.says) {
				t.Errorf("it does not say %q:\n%v", test.says, report)
			}
			if _, err := json.Marshal(report); err != nil {
				t.Error(err)
			}
			// Neither the order of arrival nor repetition matters.
			rand.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
			again := audited(append(records, records...))
			again.Duplicates -= len(records)
			if !reflect.DeepEqual(again, report) {
				t.Errorf("shuffled:\n%v\nin order:\n%v", again, report)
			}
		})
	}
}

func TestAuditProves(t *testing.T) {
	verdicts{
		"Nothing": {nil, Empty, "", "there are no records"},
		"OneAfterTheOther": {
			[]*story{
				agent("A").granted(1, 1000).released(1, 1600).returned(1, 1601).granted(2, 3000).released(2, 3100).stop(),
				agent("B").granted(1, 2000).released(1, 2200).returned(1, 2201).stop(),
			},
			Proven, "", "nothing overlapped that must not",
		},
		"WholeHolds": {
			[]*story{agent("A").held(1, 1000, 1600).held(2, 3000, 3100).stop(), agent("B").held(1, 2000, 2200).stop()},
			Proven, "", "3 holds, 0 of them handed off",
		},
		"PassedOn": { // each tenure begins at the very instant at which the one before ends
			[]*story{
				agent("A").granted(1, 1000).released(1, 1490).returned(1, 1500).granted(2, 2000).released(2, 2100).stop(),
				agent("B").granted(1, 1500).released(1, 1990).returned(1, 2000).stop(),
			},
			Proven, "", "",
		},
		"HandOffsAndReentry": {
			[]*story{
				agent("A").granted(1, 1000).reentered(1, 1100).released(1, 1200).released(1, 1300).handedOff(1, 1300).
					released(1, 1400).returned(1, 1401).stop(),
				agent("B").granted(1, 1401).released(1, 1500).stop(),
			},
			Proven, "", "",
		},
		"Rests": { // between its holds the tenure has the lock, and nobody holds it
			[]*story{
				agent("A").granted(1, 1000).released(1, 1010).rested(1, 1050).released(1, 1060).returned(1, 1100).stop(),
				agent("B").granted(1, 1100).released(1, 1200).returned(1, 1201).stop(),
			},
			Proven, "", "3 holds, 0 of them handed off, 1 by rest",
		},
		"AGrantAfterTheLastOfARest": { // which the store should not have made yet, but nobody held the lock any more
			[]*story{
				agent("A").granted(1, 1000).released(1, 1010).rested(1, 1050).released(1, 1060).returned(1, 1100).stop(),
				agent("B").held(1, 1070, 1080).stop(),
			},
			Proven, "", "",
		},
		"ACrashAfterAGrantBesideARest": { // until the sign of life the log is whole: nobody held the lock at that instant
			[]*story{
				agent("A").leasing(2*time.Second).granted(1, 1000).released(1, 1010).rested(1, 1050).released(1, 1060).alive(30000),
				agent("B").held(1, 1070, 1080).stop(),
			},
			Proven, "not stopped: 1", "",
		},
		"ACrashAtRest": { // the lease ends, and nobody held the lock
			[]*story{
				agent("A").granted(1, 1000).released(1, 1010).rested(1, 1050).released(1, 1060).alive(1500).stop(),
				agent("B").granted(1, 40000).released(1, 41000).returned(1, 41001).stop(),
			},
			Proven, "", "",
		},
		"Losses": {
			[]*story{
				agent("A").granted(1, 1000).lost(lockagent.LostDeadline, 1, 29000).
					granted(2, 31000).ended(lockagent.EventExpired, lockagent.LostExpired, 2, 32000).
					granted(3, 33000).ended(lockagent.EventBroken, lockagent.LostBroken, 3, 34000).
					granted(4, 35000).ended(lockagent.EventUnclaimed, lockagent.LostUnclaimed, 4, 36000).stop(),
			},
			Proven, "", "lost (broken): 1\nlost (deadline): 1\nlost (expired): 1\nlost (unclaimed): 1",
		},
		"SharedHolds": {
			[]*story{
				agent("A").in(lockagent.Shared).granted(1, 1000).handedOff(1, 1100).
					endedOf(lockagent.EventReleased, 0, 1, lockagent.Token(clock(1000)), 1500).released(1, 1600).
					returned(1, 1601).stop(),
				agent("B").in(lockagent.Shared).held(1, 1200, 1900).stop(),
				agent("C").held(1, 2000, 2100).stop(),
			},
			Proven, "", "",
		},
		"SharedAfterADowngrade": {
			[]*story{
				downgraded(),
				agent("B").in(lockagent.Shared).held(1, 1300, 1900).stop(),
				agent("C").held(1, 3000, 3100).stop(),
			},
			Proven, "", "",
		},
		"StillHeld": {
			[]*story{agent("A").granted(1, 1000).stop(), agent("B").of("b").held(1, 1000, 2000).stop()},
			Proven, "open: 1",
			`still held: "a": "owner-A", token 1772373601000000, agent A, billing on host-A, pid 7, ` +
				`from 2026-03-01T14:00:01.000Z, its agent is gone without a release [A:1:2]`,
		},
		"HolderCrashed": { // and its lease was over before the next began
			[]*story{agent("A").granted(1, 1000).alive(2000), agent("B").granted(1, 31000).released(1, 31100).stop()},
			Proven, "not stopped: 1", "not stopped: agent A, billing on host-A, pid 7; its last record is 3 of epoch 1",
		},
		"HolderCrashedAfterARenewal": { // that only a sign of life tells of
			[]*story{
				agent("A").leasing(2*time.Second).granted(1, 1000).alive(9000).
					edit(func(r *events.Record) { r.Confirmed = clock(8500) }),
				agent("B").held(1, 38600, 39000).stop(),
			},
			Proven, "not stopped: 1", "",
		},
		"OnlyUselessRecordsDropped": {
			[]*story{
				agent("A").granted(1, 1000).dropped(lockagent.EventRequested, lockagent.EventQueued).released(1, 1100).
					returned(1, 1101).stop(), agent("B").held(1, 1200, 1300).stop(),
			},
			Proven, "dropped: 2", "2 events found no room",
		},
		"SignOfLifeAndReturnDropped": {
			[]*story{
				agent("A").alive(500).granted(1, 1000).dropped(lockagent.EventAlive).released(1, 1100).
					dropped(lockagent.EventReturned).stop(),
				agent("B").held(1, 1200, 1300).stop(),
			},
			Proven, "dropped: 2", "",
		},
		"ReentryDropped": {
			[]*story{
				agent("A").granted(1, 1000).dropped(lockagent.EventReentered).released(1, 1100).
					edit(func(r *events.Record) { r.Count = 1 }).
					released(1, 1150).edit(func(r *events.Record) { r.Count = 0 }).returned(1, 1151).stop(),
				agent("B").held(1, 1300, 1400).stop(),
			},
			Proven, "dropped: 1", "",
		},
		"OtherStore": { // locks of the same name are two locks
			[]*story{agent("A").held(1, 1000, 2000).stop(), agent("B").at("other").held(1, 1500, 2500).stop()},
			Proven, "", "judged: 1 tenure of store other",
		},
		"OtherKindOfLock": { // nobody knows how many may have it at once
			[]*story{
				agent("A").held(1, 1000, 2000).stop(),
				agent("B").held(1, 1500, 2500).edit(func(r *events.Record) { r.LockKind = "barrier" }).stop(),
			},
			Incomplete, "unjudged: 1",
			"no violation was found, but 1 hold is of a kind of lock that this version does not judge",
		},
		"FencedAndSpinLocks": { // to the store both are one lock
			[]*story{
				agent("A").held(1, 1000, 2000).edit(func(r *events.Record) { r.LockKind = lockagent.FencedLock }).stop(),
				agent("B").held(1, 1500, 2500).edit(func(r *events.Record) { r.LockKind = lockagent.SpinLock }).stop(),
			},
			Incomplete, "unproven: 2", "the name is used as another kind of lock, too",
		},
		"UnknownKind": {
			[]*story{agent("A").held(1, 1000, 2000).add(lockagent.Event{Lock: "a"}).stop()},
			Incomplete, "unknown: 1",
			"no violation was found, but 1 record is of a kind or version that this version does not know",
		},
		"UnknownKindOfNoLock": {
			[]*story{agent("A").held(1, 1000, 2000).add(lockagent.Event{}).stop()},
			Incomplete, "unknown: 1", "",
		},
		"OtherVersion": {
			[]*story{
				agent("A").held(1, 1000, 2000).add(lockagent.Event{Lock: "a"}).
					edit(func(r *events.Record) { r.OtherVersion = true }).stop(),
			},
			Incomplete, "unknown: 1", "1 record is of a kind or version that this version does not know",
		},
	}.check(t)
}

func TestAuditFindsViolations(t *testing.T) {
	verdicts{
		"Overlap": {
			[]*story{
				agent("A").granted(1, 1000).released(1, 1600).returned(1, 1601).stop(),
				agent("B").granted(1, 1500).released(1, 2200).returned(1, 2201).stop(),
			},
			Violated, "overlap: 1", `violation: "a": two holds overlapped for up to 100.1ms
    first:  "owner-A", token 1772373601000000, agent A, billing on host-A, pid 7
            from 2026-03-01T14:00:01.000Z to 14:00:01.600 (600ms), released [A:1:2]
    second: "owner-B", token 1772373601500000, agent B, billing on host-B, pid 7
            from 2026-03-01T14:00:01.500Z to 14:00:02.200 (700ms), released [B:1:2]
    both:   from 2026-03-01T14:00:01.500Z to 14:00:01.600 on the clock of the store
    why:    `,
		},
		"FencedLock": { // one holder at a time has it
			[]*story{
				agent("A").held(1, 1000, 2000).edit(func(r *events.Record) { r.LockKind = lockagent.FencedLock }).stop(),
				agent("B").held(1, 1500, 2500).edit(func(r *events.Record) { r.LockKind = lockagent.FencedLock }).stop(),
			},
			Violated, "overlap: 1", "",
		},
		"PassedOnBeforeTheEnd": {
			[]*story{agent("A").held(1, 1000, 2000).stop(), agent("B").held(1, 1999, 2500).stop()},
			Violated, "overlap: 1", "",
		},
		"GrantedBeforeTheReturn": {
			[]*story{
				agent("A").granted(1, 1000).released(1, 2000).returned(1, 2001).stop(),
				agent("B").held(1, 1999, 2500).stop(),
			},
			Violated, "overlap: 1", "",
		},
		"GrantedBeforeTheReturnWasKnown": { // the store may have ended the first long before it answered
			[]*story{
				agent("A").granted(1, 1000).released(1, 2000).returned(1, 5000).
					edit(func(r *events.Record) { r.Until = r.Returned }).stop(),
				agent("B").held(1, 1999, 2500).stop(),
			},
			Incomplete, "unproven: 1", "it ended between 2026-03-01T14:00:01.999Z and 2026-03-01T14:00:02.000Z",
		},
		"OverlapWithOneThatGoesOn": {
			[]*story{agent("A").granted(1, 1000).alive(9000).stop(), agent("B").held(1, 5000, 6000).stop()},
			Violated, "overlap: 1", "",
		},
		"OverlapWithADeniedHold": {
			[]*story{
				agent("A").granted(1, 1000).lost(lockagent.LostDenied, 1, 9000).stop(), agent("B").held(1, 5000, 6000).stop(),
			},
			Violated, "overlap: 1", "",
		},
		"OverlapWithNotTheLast": {
			[]*story{
				agent("A").held(1, 1000, 3000).stop(), agent("B").held(1, 4000, 4100).stop(), agent("C").held(1, 2500, 2600).stop(),
			},
			Violated, "overlap: 1", "",
		},
		"OverlapOfSharedAndExclusive": {
			[]*story{
				agent("A").in(lockagent.Shared).held(1, 1000, 2000).stop(),
				agent("B").in(lockagent.Shared).held(1, 1100, 1200).stop(),
				agent("C").held(1, 1500, 1600).stop(),
			},
			Violated, "overlap: 1", "",
		},
		"OverlapBeforeADowngrade": {
			[]*story{downgraded(), agent("B").in(lockagent.Shared).held(1, 1150, 1900).stop()},
			Violated, "overlap: 1", "",
		},
		"OverlapAfterADowngrade": {
			[]*story{downgraded(), agent("B").held(1, 1300, 1900).stop()},
			Violated, "overlap: 1", "",
		},
		"OverlapWithinAnAgent": {
			[]*story{
				agent("A").granted(1, 1000).handedOff(1, 1100).
					endedOf(lockagent.EventReleased, 0, 1, lockagent.Token(clock(1000)), 1200).released(1, 1300).stop(),
			},
			Violated, "overlap: 1", "the agent granted the lock to the second owner while the first still had it",
		},
		"OverlapWithAHoldByRest": {
			[]*story{
				agent("A").granted(1, 1000).released(1, 1010).rested(1, 1050).released(1, 1060).returned(1, 1100).stop(),
				agent("B").held(1, 1055, 1080).stop(),
			},
			Violated, "overlap: 1", "",
		},
		"OverlapWithARest": { // the tenure went on, and the hold between two others of it was not the tenure's
			[]*story{
				agent("A").granted(1, 1000).released(1, 1010).rested(1, 1050).released(1, 1060).returned(1, 1100).stop(),
				agent("B").held(1, 1020, 1040).stop(),
			},
			Violated, "overlap: 1", "the store granted the lock to the second while the first had a lease that was not over",
		},
		"OverlapOfJoinedStores": {
			[]*story{
				agent("A").at("x").held(1, 1000, 2000).stop(),
				agent("B").at("y").reset(lockagent.Reset{Store: "x", From: "i", To: "j", After: clock(0), Before: clock(1)}).
					held(1, 1500, 2500).stop(),
			},
			Violated, "overlap: 1", "",
		},
		"TokenRepeated": {
			[]*story{
				agent("A").held(1, 1000, 1100).stop(),
				agent("B").held(1, 2000, 2100).edit(func(r *events.Record) { r.Token = lockagent.Token(clock(1000)) }).stop(),
			},
			Violated, "token repeated: 1", "two holds have the same token",
		},
		"TokenOfAHoldThatMayHaveBeenMade": {
			[]*story{
				agent("A").held(1, 1000, 1100).edit(func(r *events.Record) { r.Holds = 64 }).stop(),
				agent("B").held(1, 2000, 2100).edit(func(r *events.Record) { r.Token = lockagent.Token(clock(1000)) + 63 }).stop(),
			},
			Violated, "token fell: 1", "",
		},
		"TokenFell": {
			[]*story{
				agent("A").held(1, 1000, 1100).stop(),
				agent("B").held(1, 2000, 2100).edit(func(r *events.Record) { r.Token = 5 }).stop(),
			},
			Violated, "token fell: 1", "",
		},
		"TokenFellWithinAnAgent": {
			[]*story{agent("A").held(1, 2000, 2100).held(2, 1000, 1100).stop()},
			Violated, "token fell: 1", "",
		},
		"StrayReentry": {
			[]*story{agent("A").granted(1, 1000).released(1, 1100).reentered(1, 1200).stop()},
			Violated, "stray re-entry: 1", "a re-entry without a hold",
		},
		"UntilContradictsHeld": {
			[]*story{
				agent("A").granted(1, 1000).released(1, 9000).edit(func(r *events.Record) { r.Until = clock(3000) }).stop(),
				agent("B").held(1, 3500, 3600).stop(),
			},
			Violated, "contradiction: 1, overlap: 1",
			"it is said to have ended at 2026-03-01T14:00:03.000Z at the latest, but was held until",
		},
		"ReleaseWithoutCount": { // of one of two grants
			[]*story{
				agent("A").granted(1, 1000).reentered(1, 1100).released(1, 1200).
					edit(func(r *events.Record) { r.Count = 0 }).stop(),
				agent("B").held(1, 1300, 1400).stop(),
			},
			Violated, "contradiction: 1", `the owner had 2 grants, and after "released" it has 0`,
		},
		"ReturnedBeforeTheEnd": { // the store was told before the owner
			[]*story{agent("A").granted(1, 1000).returned(1, 1100).released(1, 1600).stop()},
			Violated, "contradiction: 1", "the agent returned its tenure while it was held",
		},
		"OutlivedItsLease": {
			[]*story{agent("A").granted(1, 1000).released(1, 40000).stop()},
			Violated, "outlived its lease: 1", "the store had confirmed its lease until 2026-03-01T14:00:31.000Z",
		},
	}.check(t)
}

func TestAuditIsNotSure(t *testing.T) {
	verdicts{
		"LostTail": { // B may have had the lock at the same time as A, in A's lost end
			[]*story{agent("A").held(1, 1000, 1100).alive(2000), agent("B").held(1, 5000, 6000).stop()},
			Incomplete, "not stopped: 1, unproven: 1",
			"agent A, billing on host-A, pid 7 (epoch 1) did not stop, and may have held the lock until " +
				"2026-03-01T14:00:17.000Z",
		},
		"LostTailLongBefore": {
			[]*story{agent("A").held(1, 1000, 1100).alive(2000), agent("B").held(1, 18000, 19000).stop()},
			Proven, "not stopped: 1",
			"proven: nothing overlapped that must not, if 1 agent that did not stop lived no longer than it says below",
		},
		"CrashedAtRest": { // its lease was over, but it may have lived on, and had the lock again
			[]*story{
				agent("A").leasing(2*time.Second).granted(1, 1000).released(1, 1010).rested(1, 1050).released(1, 1060).alive(1500),
				agent("B").held(1, 3100, 3200).stop(),
			},
			Incomplete, "not stopped: 1, unproven: 1",
			"agent A, billing on host-A, pid 7 (epoch 1) did not stop, and may have held the lock until " +
				"2026-03-01T14:00:16.500Z",
		},
		// The lease was not over, so the agent may have had the lock again at that instant.
		"CrashedAtRestAndTheNextWasEarly": {
			[]*story{
				agent("A").leasing(2*time.Second).granted(1, 1000).released(1, 1010).rested(1, 1050).released(1, 1060).alive(1500),
				agent("B").held(1, 1600, 1700).stop(),
			},
			Incomplete, "not stopped: 1, unproven: 1",
			"agent A, billing on host-A, pid 7 (epoch 1) did not stop, and may have held the lock until " +
				"2026-03-01T14:00:16.500Z",
		},
		"CrashedWithoutARest": { // it is the same without a rest
			[]*story{
				agent("A").leasing(2*time.Second).granted(1, 1000).released(1, 1010).returned(1, 1011).alive(1500),
				agent("B").held(1, 3100, 3200).stop(),
			},
			Incomplete, "not stopped: 1, unproven: 1",
			"agent A, billing on host-A, pid 7 (epoch 1) did not stop, and may have held the lock until " +
				"2026-03-01T14:00:16.500Z",
		},
		"HolderCrashedAndTheNextWasEarly": {
			[]*story{agent("A").granted(1, 1000).alive(2000), agent("B").held(1, 20000, 21000).stop()},
			Incomplete, "not stopped: 1, unproven: 1",
			"the log does not have its end, and token 1772373620000000 was granted at 2026-03-01T14:00:20.000Z, before its " +
				"lease was over",
		},
		"UnexplainedDenial": {
			[]*story{agent("A").granted(1, 1000).lost(lockagent.LostDenied, 1, 5000).stop()},
			Incomplete, "unproven: 1", "the store said that the tenure was over, and the log does not say why",
		},
		"UnexplainedDenialOfAReturn": {
			[]*story{agent("A").granted(1, 1000).released(1, 5000).foundOver(1, 5001).stop()},
			Incomplete, "unproven: 1", "",
		},
		"DenialOfALeaseThatRanOut": {
			[]*story{agent("A").granted(1, 1000).lost(lockagent.LostDeadline, 1, 29000).foundOver(1, 32000).stop()},
			Proven, "", "",
		},
		"ReturnIsMissing": { // the agent knows only that it was over at 1600 at the latest
			[]*story{
				agent("A").granted(1, 1000).released(1, 1500).edit(func(r *events.Record) { r.Until = clock(1600) }).stop(),
				agent("B").held(1, 1550, 1650).stop(),
			},
			Incomplete, "unproven: 1", "it ended between 2026-03-01T14:00:01.499Z and 2026-03-01T14:00:01.600Z, and token",
		},
		"Hole": { // it touches the hold of B that is beside it, and not the other
			[]*story{
				agent("A").held(1, 1000, 1100).alive(2000).missing(2).held(4, 3000, 3100).stop(),
				agent("B").of("b").held(1, 2500, 2600).held(2, 9000, 9100).stop(),
			},
			Incomplete, "missing: 1, unproven: 1",
			"agent A (epoch 1) may have held the lock, for its records 4 to 5 are missing",
		},
		"GapAtTheEndOfAnEpoch": {
			[]*story{agent("A").held(1, 1000, 1100).missing(1).next().alive(9000).stop()},
			Incomplete, "missing: 1, not stopped: 1", "records 3 to 3 of agent A, epoch 1",
		},
		"EndInAGap": {
			[]*story{
				agent("A").alive(500).granted(1, 1000).missing(1).held(2, 3000, 3100).stop(),
				agent("B").held(1, 9000, 9100).stop(),
			},
			Incomplete, "missing: 1, unproven: 1", "the log does not have its end, which may be among the missing records",
		},
		"EndAfterAHole": { // so it was no end in the hole
			[]*story{
				agent("A").granted(1, 1000).missing(1).handedOff(1, 1100).
					endedOf(lockagent.EventReleased, 0, 1, lockagent.Token(clock(1000)), 1200).released(1, 1300).stop(),
			},
			Violated, "missing: 1, overlap: 1", "",
		},
		"GrantsDropped": {
			[]*story{agent("A").held(1, 1000, 1100).dropped(lockagent.EventGranted).stop()},
			Incomplete, "dropped: 1, missing: 1", "",
		},
		"MoreIsMissingThanWasDropped": {
			[]*story{agent("A").held(1, 1000, 1100).missing(1).dropped(lockagent.EventQueued).stop()},
			Incomplete, "dropped: 1, missing: 1", "missing: records 3 to 3",
		},
		"EndWithoutAGrant": {
			[]*story{agent("A").released(1, 1100).stop()},
			Incomplete, "unproven: 1", "the log has its end, but not its grant",
		},
		// The answer of the store took a while when it confirmed the tenure.
		"EndWithoutAGrantThatWasReturnedBeforeItsBound": {
			[]*story{agent("A").released(1, 1032).edit(func(r *events.Record) {
				r.Held, r.Confirmed, r.Until = 32*time.Millisecond, clock(1000), clock(1096)
			}).returned(1, 1033).stop()},
			Incomplete, "unproven: 1", "the log has its end, but not its grant",
		},
		"HandOffWithoutABeginning": {
			[]*story{
				agent("A").handedOff(1, 1100).edit(func(r *events.Record) { r.StoreTime = clock(1000) }).released(1, 1200).
					edit(func(r *events.Record) { r.Confirmed = clock(1000) }).stop(),
			},
			Incomplete, "unproven: 1", "the log does not have the grant that began its tenure",
		},
		"TenureBeganTwice": {
			[]*story{agent("A").granted(1, 1000).released(1, 1100).granted(1, 1200).released(1, 1300).stop()},
			Incomplete, "unproven: 1", "its tenure began more than once",
		},
		"NoTimes": {
			[]*story{
				agent("A").granted(1, 1000).edit(func(r *events.Record) { r.StoreTime = 0 }).released(1, 1100).stop(),
				agent("B").granted(1, 2000).released(1, 2100).edit(func(r *events.Record) { r.Until = 0 }).stop(),
			},
			Incomplete, "unproven: 2", "its end has no bound on the clock of the store",
		},
		"UnknownMode": {
			[]*story{agent("A").in("update").held(1, 1000, 2000).stop(), agent("B").in("update").held(1, 1500, 1700).stop()},
			Incomplete, "unproven: 2", "its mode is not known",
		},
		"NoneNamesItsStore": {
			[]*story{nameless("A").held(1, 1000, 1400).stop(), nameless("B").held(1, 1500, 1600).stop()},
			Incomplete, "joined: 1", "2 tenures do not say of which store they are\n",
		},
		"SomeDoNotNameTheirStore": {
			[]*story{
				agent("A").held(1, 1000, 2000).stop(),
				agent("B").edit(func(r *events.Record) { r.Store = "" }).at("").held(1, 1500, 1600).stop(),
			},
			Incomplete, "joined: 1", "do not say of which store they are",
		},
	}.check(t)
}

// The same identity with another content: who was first is a matter of arrival.
func TestEquivocation(t *testing.T) {
	first, second := agent("A").held(1, 1000, 1100).stop(), agent("A").held(1, 1000, 1200).stop()
	r := audited(recordsOf([]*story{first, second, first, second}))
	if found := findingsOf(r); r.Verdict != Violated || !slices.Equal(found, []string{"equivocation: 1"}) ||
		!strings.Contains(r.String(), "two different records have the identity A:1:2") {
		t.Errorf("%v", r)
	}
}

func TestAuditOfUnreadable(t *testing.T) {
	a := newAudit()
	for n := range 30 {
		_ = a.Visit(&events.Record{}, fmt.Errorf("message %d", n))
	}
	if r := a.Report(); r.Verdict != Incomplete || r.Unreadable.Count != 30 || len(r.Unreadable.First) != most ||
		!strings.Contains(r.String(), "unreadable: and 10 more") {
		t.Errorf("%v", r)
	}
}

// downgraded is a session that writes until 1200 and then reads until 2000.
func downgraded() *story {
	s := agent("A").granted(1, 1000)
	s.in(lockagent.Shared).reentered(1, 1100).edit(func(r *events.Record) { r.Count = 2 })
	s.in(lockagent.Exclusive).endedOf(lockagent.EventReleased, 0, 1, lockagent.Token(clock(1000)), 1200).
		edit(func(r *events.Record) { r.Count = 1 })
	s.in(lockagent.Shared).released(1, 2000)
	return s.returned(1, 2001).stop()
}

package audit

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// The second opinion judges a log that is whole, and names what keeps it from that.
func TestIndependent(t *testing.T) {
	a := func() *story { return agent("A").granted(1, 1000).released(1, 2000).returned(1, 2001) }
	b := func(at int) *story { return agent("B").held(1, at, at+500).stop() }
	early := agent("A").held(1, 1000, 5000).edit(func(r *events.Record) { r.Returned = clock(2000) }).stop()
	// The reason of an end says that the store denied the hold, whatever kind of end the record is.
	denied := func(kind lockagent.EventKind, at int) []*story {
		s := agent("A").leasing(2*time.Second).granted(1, 1000).ended(kind, lockagent.LostDenied, 1, 2800)
		return []*story{s.foundOver(1, at).stop(), b(4000)}
	}
	const outlived = "record A:1:4 (returned): its hold went on beyond its lease"
	onT := agent("B").edit(func(r *events.Record) { r.Store = "t" }).at("t")
	for name, test := range map[string]struct {
		stories []*story
		verdict Verdict
		why     string
		pairs   int
	}{
		"Whole":   {[]*story{a().stop(), b(3000)}, Proven, "", 0},
		"Overlap": {[]*story{a().stop(), b(1500)}, Violated, "", 1},
		"AnEndThatIsTooEarly": { // and hides an overlap
			[]*story{early, b(3000)}, Violated, "", 1,
		},
		"AnEndThatIsTooEarlyAndHidesNothing": {
			[]*story{early, b(6000)},
			NoVerdict,
			"record A:1:2 (held): its tenure was over before the time for which it was held", 0,
		},
		"TwoTenuresOfAnAgent": {[]*story{agent("A").held(1, 1000, 5000).held(2, 3000, 3500).stop()}, Violated, "", 1},
		"NoStop": {
			[]*story{a(), b(3000)},
			NoVerdict, "between records A:1:4 and B:1:1 something is missing or contradicts", 0,
		},
		"Hole": {
			[]*story{a().missing(1).stop(), b(1500)},
			NoVerdict, "between records A:1:4 and A:1:6 something is missing or contradicts", 0,
		},
		"Reset": {
			[]*story{a().reset(lockagent.Reset{From: "x", To: "y"}).stop(), b(3000)},
			NoVerdict, "record A:1:5 tells of what makes times or numbers incomparable: storereset", 0,
		},
		"Unknown": {
			[]*story{a().edit(func(r *events.Record) { r.Raw = "{}" }).stop(), b(3000)},
			NoVerdict, "record A:1:4 has something that this program does not know", 0,
		},
		"ATenureNumberTwice": { // its holds have a beginning and an end each, and these are compared
			[]*story{agent("A").held(1, 1000, 1100).held(1, 2000, 2100).stop(), b(3000)}, Proven, "", 0,
		},
		"AnotherKindOfLock": {
			[]*story{a().edit(func(r *events.Record) { r.Token, r.LockKind = 1, "barrier" }).stop()},
			NoVerdict, "record A:1:4 is about a lock that the second opinion does not judge", 0,
		},
		"HeldForLongerThanUntilItsEnd": { // as a record says that tells that the hold goes on
			[]*story{agent("A").granted(1, 1000).holding(1, 601_000).released(1, 2000).returned(1, 2001).stop(), b(301_000)},
			Violated, "", 1,
		},
		"RenewedBehindItsEnd": {
			[]*story{agent("A").granted(1, 1000).renewing(1, 5000).released(1, 2000).
				edit(func(r *events.Record) { r.Confirmed = clock(1000) }).stop(), b(3000)}, Violated, "", 1,
		},
		"AHandOffThatWasDecidedBeforeItsTenure": {
			[]*story{
				agent("A").granted(1, 1000).released(1, 1500).handedOff(1, 1600).edit(func(r *events.Record) {
					r.StoreTime, r.Confirmed = clock(500), 0
				}).released(1, 2000).returned(1, 2001).stop(), b(3000),
			},
			NoVerdict, "record A:1:4 tells of a decision before its tenure began", 0,
		},
		// The last reader that the agent tells of is not the one that had the lock for the longest time.
		"AReaderThatEndedEarlierThanOneToldBefore": {
			[]*story{
				agent("A").in(lockagent.Shared).granted(1, 1000).reentered(1, 1050).handedOff(1, 1100).
					endedOf(lockagent.EventReleased, 0, 1, lockagent.Token(clock(1000)), 3000).
					endedOf(lockagent.EventReleased, 0, 1, lockagent.Token(clock(1000)), 3000).
					released(1, 2000).returned(1, 3001).stop(),
				b(4000),
			},
			Proven, "", 0,
		},
		"StoresWithOtherNames": {
			[]*story{a().stop(), onT.held(1, 1500, 2000).stop()},
			Proven, "", 0,
		},
		"StartsWithASumOfNoHolds": {
			[]*story{
				a().stop().next().edit(func(r *events.Record) { r.Sum = 7 }).stop(), b(3000),
			}, NoVerdict, "between records A:1:5 and A:2:1 something is missing or contradicts", 0,
		},
		"ExpiredAndDeniedWithItsLease":    {denied(lockagent.EventExpired, 3005), Proven, "", 0},
		"ExpiredAndDeniedBehindItsLease":  {denied(lockagent.EventExpired, 3100), NoVerdict, outlived, 0},
		"LostAndDeniedBehindItsLease":     {denied(lockagent.EventLost, 3100), NoVerdict, outlived, 0},
		"ReleasedAndDeniedBehindItsLease": {denied(lockagent.EventReleased, 3100), NoVerdict, outlived, 0},
		"Nothing":                         {nil, NoVerdict, "record :0:0 is the last one, and its agent did not stop", 0},
		"AHiddenHold": {
			[]*story{a().alive(3000).edit(func(r *events.Record) { r.Count = 1 }).stop()},
			NoVerdict, "record A:1:5 (alive): it counts 1 holds, and the log has 0", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if r := audited(recordsOf(test.stories)); r.Verdict == Proven && test.verdict == Violated {
				t.Errorf("the audit says\n%v", r)
			}
			if o := opinionOf(recordsOf(test.stories)); o.Verdict != test.verdict || o.Why != test.why ||
				len(o.Pairs) != test.pairs {
				t.Errorf("%+v", o)
			}
		})
	}
}

// The second opinion has a verdict on true histories in which nothing happened, and finds what evil stores do.
func TestIndependentHasVerdicts(t *testing.T) {
	n := make(map[Verdict]int)
	seeds(t, 30, func(_ uint64, r *rand.Rand) { n[opinionOf(drawWorld(r, evils).stream).Verdict]++ })
	seeds(t, 30, func(_ uint64, r *rand.Rand) { n[opinionOf(calmWorld(r).stream).Verdict]++ })
	t.Log(n)
	if n[Proven] < 25 || n[Violated] == 0 || n[NoVerdict] == 0 {
		t.Errorf("there are too few verdicts of one kind: %v", n)
	}
}

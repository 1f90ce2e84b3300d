package audit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// graceBegan tells that an incarnation began with a grace period, at 1.4 s, and for whom it waits.
func (s *story) graceBegan(incarnation string, roll ...lockagent.AgentID) *story {
	return s.add(lockagent.Event{Kind: lockagent.EventGraceBegan, Grace: &lockagent.GracePeriod{
		Incarnation: incarnation, Reason: "emptied", Began: clock(1400), Roll: roll,
	}})
}

// graceEnded tells that it is over, and who did not come back.
func (s *story) graceEnded(incarnation string, ms int, missing ...lockagent.AgentID) *story {
	return s.add(lockagent.Event{Kind: lockagent.EventGraceEnded, Grace: &lockagent.GracePeriod{
		Incarnation: incarnation, Reason: "emptied", Began: clock(1400), Ended: clock(ms), Roll: missing,
	}})
}

// emptied is a reset from one incarnation to the next, at a time.
func emptied(from, to string, ms int) lockagent.Reset {
	return lockagent.Reset{From: from, To: to, Reason: "emptied", After: clock(ms - 300), Before: clock(ms)}
}

// A reset behind which the store waited in a grace period excuses nothing.
func TestAuditOfGrace(t *testing.T) {
	reset := emptied("x", "y", 1400)
	lost := func(s *story) *story { return s.lost(lockagent.LostDenied, 1, 9000).stop() }
	held := func(id lockagent.AgentID) *story { return agent(id).reset(reset).on("y").held(1, 3500, 4000) }
	first := func() *story { return agent("A").on("x").granted(1, 1000).reset(reset) }
	const why = "the store was reset, and granted the lock to the second although the first could still come back in " +
		"a grace period"
	verdicts{
		"Overlap": {
			[]*story{lost(first().graceBegan("y", "A", "B")), held("B").stop()}, Violated, "overlap: 1", why,
		},
		"OfWhichOnlyTheSecondTells": {
			[]*story{lost(first()), held("B").graceBegan("y", "A", "B").stop()}, Violated, "overlap: 1", why,
		},
		"OfWhichAThirdTells": {
			[]*story{lost(first()), held("B").stop(), agent("C").graceBegan("y", "A", "B").stop()},
			Violated, "overlap: 1", why,
		},
		"OfWhichOnlyTheEndIsTold": {
			[]*story{lost(first()), held("B").graceEnded("y", 3000, "A").stop()}, Violated, "overlap: 1", why,
		},
		"NobodyTellsOfIt": {
			[]*story{lost(first()), held("B").stop()},
			Explained, "explained: 1",
			"cause:  the store was reset (emptied)",
		},
		"OfAnotherIncarnation": { // and the agent of the first does not keep to any
			[]*story{lost(first()), held("B").graceBegan("z", "A", "B").stop()}, Explained, "explained: 1", "",
		},
		"TheFirstDoesNotKeepToIt": {
			[]*story{lost(first()), held("B").graceBegan("y", "B", "C").stop()}, Explained, "explained: 1", "",
		},
		"TheFirstKeepsToOthers": {
			[]*story{
				lost(agent("A").graceBegan("w").on("x").granted(1, 1000)), held("B").graceBegan("y", "B").stop(),
			},
			Violated, "overlap: 1", why,
		},
		"AnEarlierProcessOfTheFirstKeptToOthers": {
			[]*story{
				lost(
					agent("A").graceBegan("w").on("x").granted(1, 1000).stop().next().reentered(1, 1100).
						released(1, 1200),
				),
				held("B").graceBegan("y", "B").stop(),
			},
			Explained, "explained: 1", "",
		},
		"TheSecondDoesNotWait": {
			[]*story{lost(first().graceBegan("y", "A").graceEnded("y", 3600)), held("B").stop()},
			Explained, "explained: 1", "",
		},
		"TheSecondComesWhenItIsOver": {
			[]*story{lost(first().graceBegan("y", "A").graceEnded("y", 3000)), held("B").stop()},
			Violated, "overlap: 1", why,
		},
		"ItsEndIsNotKnown": {
			[]*story{lost(first().graceBegan("y", "A")), held("B").stop()}, Explained, "explained: 1", "",
		},
		"ClocksOfTwoServers": {
			[]*story{
				first().graceBegan("y", "A", "B").released(1, 4000).returned(1, 4000).stop(), held("B").stop(),
			},
			Incomplete, "unproven: 1", "the clocks of two servers may differ",
		},
		"AClockThatIsBehind": {
			[]*story{
				lost(agent("A").on("x").granted(1, 1000).graceBegan("y", "A", "B")), held("B").stop(),
				agent("C").
					reset(
						lockagent.Reset{
							From: "x", To: "y", Reason: "failed over", After: clock(1900), Before: clock(1500),
						},
					).
					stop(),
			},
			Explained, "explained: 1", "",
		},
		"TheFirstCameBack": {
			[]*story{
				first().graceBegan("y", "A", "B").renewed(1, 2000).released(1, 9000).returned(1, 9000).stop(),
				held("B").stop(),
			},
			Violated, "overlap: 1",
			"the store granted the lock to the second while the first had a lease that was not over",
		},
		"GoesOn": {
			[]*story{
				first().graceBegan("y", "A", "B").graceEnded("y", 1700).renewed(1, 2000).released(1, 9000).
					returned(1, 9000).stop(),
				agent("B").reset(reset).on("y").held(1, 9500, 9600).stop(),
			},
			Proven, "",
			"grace: the store (emptied) waited for the holders of before for 300ms, from 2026-03-01T14:00:01.400Z " +
				"on; all came back",
		},
		"ATokenThatFell": {
			[]*story{
				first().graceBegan("y", "A", "B").renewed(1, 2000).released(1, 9000).returned(1, 9000).stop(),
				agent("B").reset(reset).on("y").held(1, 9500, 9600).
					edit(func(r *events.Record) { r.Token = lockagent.Token(clock(900)) }).stop(),
			},
			Violated, "token fell: 1", "",
		},
		"Lost": {
			[]*story{lost(first().graceBegan("y", "A"))},
			Incomplete, "unproven: 1",
			"the store was reset, and ended the hold although its agent could come back in a grace period",
		},
		"LostWhenItsLeaseWasOver": {
			[]*story{first().graceBegan("y", "A").lost(lockagent.LostDenied, 1, 32_000).stop()},
			Violated, "outlived its lease: 1", "",
		},
		"LostWithoutGrace": {[]*story{lost(first()), agent("B").graceBegan("y", "B").stop()}, Proven, "", ""},
		"LostToOneThatDoesNotWait": {
			[]*story{first().graceBegan("y", "A").lost(lockagent.LostDenied, 1, 3700).stop(), held("B").stop()},
			Explained, "explained: 1", "",
		},
		"ReleasedBeforeItCameBack": { // the store had forgotten it, and nobody lost anything
			[]*story{first().graceBegan("y", "A").released(1, 1500).foundOver(1, 1600).stop()}, Proven, "", "",
		},
		"Broken": {
			[]*story{
				lost(first().graceBegan("y", "A", "B")),
				agent("B").broke(3400).reset(reset).on("y").held(1, 3500, 4000).stop(),
			},
			Explained, "explained: 1", "an operator (olga) broke the lock",
		},
		"TwoResets": {
			[]*story{
				lost(agent("A").on("x").granted(1, 1000)),
				agent("B").reset(reset).graceBegan("y", "A", "B").reset(emptied("y", "z", 2000)).
					graceBegan("z", "A", "B").on("z").
					held(1, 3500, 4000).stop(),
			},
			Violated, "overlap: 1", why,
		},
		"TwoResetsAndOneGracePeriod": {
			[]*story{
				lost(agent("A").on("x").granted(1, 1000)),
				agent("B").reset(reset).graceBegan("y", "A", "B").reset(emptied("y", "z", 2000)).on("z").
					held(1, 3500, 4000).stop(),
			},
			Explained, "explained: 1",
			"cause:  the store was reset (emptied) at some time from 2026-03-01T14:00:01.700Z",
		},
		"TheFirstResetHasNone": {
			[]*story{
				lost(agent("A").on("x").granted(1, 1000)),
				agent("B").reset(reset).reset(emptied("y", "z", 2000)).graceBegan("z", "A", "B").on("z").
					held(1, 3500, 4000).stop(),
			},
			Explained, "explained: 1",
			"cause:  the store was reset (emptied) at some time from 2026-03-01T14:00:01.100Z",
		},
		"IncarnationsWithoutNames": {
			[]*story{
				lost(agent("A").granted(1, 1000).reset(reset).graceBegan("y", "A", "B")),
				agent("B").reset(reset).held(1, 3500, 4000).stop(),
			},
			Violated, "overlap: 1", why,
		},
		"BothBeforeTheReset": { // which nobody noticed at once
			[]*story{
				agent("A").on("x").leasing(2*time.Second).granted(1, 1000).
					ended(lockagent.EventExpired, lockagent.LostExpired, 1, 3000).foundOver(1, 3100).
					reset(emptied("x", "y", 3100)).graceBegan("y", "A", "B").stop(),
				agent("B").on("x").held(1, 2999, 3010).reset(emptied("x", "y", 3050)).stop(),
			},
			Incomplete, "unproven: 1",
			"it ended between 2026-03-01T14:00:02.998Z and 2026-03-01T14:00:03.000Z",
		},
		"TheSecondSinceTheReset": { // which was not behind a grace period
			[]*story{
				agent("A").on("x").granted(1, 1000).released(1, 3000).foundOver(1, 3100).stop(),
				agent("B").reset(emptied("x", "y", 2900)).on("y").held(1, 2999, 3010).stop(),
			},
			Incomplete, "unproven: 1",
			"it ended between 2026-03-01T14:00:02.998Z and 2026-03-01T14:00:03.000Z",
		},
		"TheOldMasterThaws": { // it knows nothing of the grace period of the next one
			[]*story{
				agent("A").reset(emptied("x", "y", 950)).graceBegan("y", "A", "B").on("y").held(1, 1000, 3000).stop(),
				agent("B").on("x").granted(1, 1500).lost(lockagent.LostDenied, 1, 3200).stop(),
			},
			Explained, "explained: 1", "",
		},
		"TheNextIncarnationHadNotBegun": { // and the first has slept through the one between
			[]*story{
				agent("A").on("x").granted(1, 1000).
					reset(
						lockagent.Reset{From: "x", To: "z", Reason: "emptied", After: clock(1100), Before: clock(8500)},
					).
					lost(lockagent.LostDenied, 1, 9000).stop(),
				agent("B").reset(reset).graceBegan("y", "A", "B").on("y").held(1, 3500, 4000).
					reset(emptied("y", "z", 8000)).graceBegan("z", "A", "B").
					edit(func(r *events.Record) { r.Grace.Began = clock(8000) }).stop(),
			},
			Violated, "overlap: 1", why,
		},
		"TheOldMasterThawsAtOnce": { // the clocks of the two differ a little
			[]*story{
				agent("A").reset(emptied("x", "y", 950)).graceBegan("y", "A", "B").
					edit(func(r *events.Record) { r.Grace.Began = clock(1600) }).
					on("y").held(1, 1000, 3000).stop(),
				agent("B").on("x").granted(1, 1500).lost(lockagent.LostDenied, 1, 3200).stop(),
			},
			Explained, "explained: 1", "",
		},
		"LostByTheOldMaster": { // which granted it when the next one had begun
			[]*story{
				agent("A").on("x").granted(1, 1500).reset(emptied("x", "y", 3000)).graceBegan("y", "A").
					lost(lockagent.LostDenied, 1, 3200).stop(),
			},
			Proven, "", "",
		},
		"BeforeTheStoreIsNamed": {
			[]*story{
				lost(agent("A").on("x").granted(1, 1000)),
				agent("B").edit(func(r *events.Record) { r.Store = "" }).at("").reset(reset).graceBegan("y", "A", "B").
					at("s").on("y").held(1, 3500, 4000).stop(),
			},
			Violated, "overlap: 1", why,
		},
		"OfAStoreWithAnotherName": {
			[]*story{
				lost(agent("A").on("x").granted(1, 1000)),
				agent("B").at("t").graceBegan("y", "A", "B").reset(lockagent.Reset{
					From: "x", To: "y", Reason: "emptied", After: clock(1100), Before: clock(1400), Store: "s",
				}).on("y").held(1, 3500, 4000).stop(),
				agent("C").of("b").held(1, 1000, 1100).graceBegan("w").at("t").held(2, 5000, 5100).stop(),
			},
			Violated, "overlap: 1", why,
		},
		"FirstStart": {
			[]*story{agent("A").graceBegan("x").graceEnded("x", 3400).
				edit(func(r *events.Record) { r.Grace.Reason = "first start" }).
				on("x").held(1, 3500, 4000).stop()},
			Proven, "", "",
		},
		"TheFirstCrashed": { // it may have gone on until the end of its lease
			[]*story{
				agent("A").on("x").granted(1, 1000),
				agent("B").reset(reset).graceBegan("y", "A", "B").on("y").held(1, 20_000, 21_000).stop(),
			},
			Incomplete, "not stopped: 1, unproven: 1", "before its lease was over",
		},
		"Permits": {
			[]*story{
				lost(agent("A").permits(lockagent.Semaphore, 1, 1).changes(500, lockagent.TrySetPermits, 1).on("x").
					granted(1, 1000).
					reset(reset).graceBegan("y", "A", "B")),
				held("B").edit(func(r *events.Record) { r.LockKind, r.Permits, r.Total = lockagent.Semaphore, 1, 1 }).
					stop(),
			},
			Violated, "too many permits: 1", "",
		},
		"PermitsOfOneThatHasNotNoticed": {
			[]*story{
				lost(
					agent("A").permits(lockagent.Semaphore, 1, 1).changes(500, lockagent.TrySetPermits, 1).on("x").
						granted(1, 1000),
				),
				held("B").edit(func(r *events.Record) { r.LockKind, r.Permits, r.Total = lockagent.Semaphore, 1, 1 }).
					graceBegan("y", "A", "B").stop(),
			},
			Violated, "too many permits: 1", "",
		},
		"PermitsAndClocksOfTwoServers": {
			[]*story{
				agent("A").permits(lockagent.Semaphore, 1, 1).changes(500, lockagent.TrySetPermits, 1).on("x").
					granted(1, 1000).
					reset(reset).graceBegan("y", "A", "B").released(1, 4000).returned(1, 4000).stop(),
				held("B").edit(func(r *events.Record) { r.LockKind, r.Permits, r.Total = lockagent.Semaphore, 1, 1 }).
					stop(),
			},
			Incomplete, "unproven: 1", "perhaps more permits were in use than there were: up to 2 of 1",
		},
		"PermitsLostToOneThatDoesNotWait": {
			[]*story{
				agent("A").permits(lockagent.Semaphore, 1, 1).changes(500, lockagent.TrySetPermits, 1).on("x").
					granted(1, 1000).
					reset(reset).graceBegan("y", "A").lost(lockagent.LostDenied, 1, 3700).stop(),
				held("B").edit(func(r *events.Record) { r.LockKind, r.Permits, r.Total = lockagent.Semaphore, 1, 1 }).
					stop(),
			},
			Explained, "explained: 1", "",
		},
		"PermitsWithoutGrace": {
			[]*story{
				lost(agent("A").permits(lockagent.Semaphore, 1, 1).changes(500, lockagent.TrySetPermits, 1).on("x").
					granted(1, 1000).
					reset(reset)),
				held("B").edit(func(r *events.Record) { r.LockKind, r.Permits, r.Total = lockagent.Semaphore, 1, 1 }).
					stop(),
			},
			Explained, "explained: 1", "",
		},
	}.check(t)
}

// What agents drop of grace periods leaves no hole in a proof.
func TestDroppedGrace(t *testing.T) {
	s := agent("A").granted(1, 1000).dropped(lockagent.EventGraceBegan, lockagent.EventGraceEnded).released(1, 2000).
		returned(1, 2000).stop()
	if r := audited(recordsOf([]*story{s, agent("B").held(1, 2500, 2600).stop()})); r.Verdict != Proven {
		t.Errorf("%v", r)
	}
}

// A report tells of each period once, with all that anybody tells of it.
func TestGracesInReports(t *testing.T) {
	a := newAudit()
	for _, r := range recordsOf([]*story{
		agent("A").graceBegan("y", "A", "B", "C").graceEnded("y", 31_400, "B").stop(),
		agent("D").graceEnded("y", 31_400, "C").edit(func(r *events.Record) { r.Grace.More = 7 }).graceBegan("z", "A").
			stop(),
	}) {
		a.Add(r)
	}
	r := a.Report()
	if again := resumed(t, a).Report(); again.String() != r.String() || again.Graces.Count != 2 {
		t.Errorf("%v\nresumed:\n%v", r, again)
	}
	var got []string
	for _, g := range r.Graces.First {
		got = append(got, fmt.Sprint(g.Store, " ", g.Incarnation, " ", g))
	}
	want := []string{
		"s y the store (emptied) waited for the holders of before for 30s, from 2026-03-01T14:00:01.400Z on; B, C " +
			"and 7 more did not come back",
		"s z the store (emptied) waited for the holders of before from 2026-03-01T14:00:01.400Z on; the log does not " +
			"have the end",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for text, g := range map[string]Grace{
		"": {}, "A": {Missing: []lockagent.AgentID{"A"}}, "A and B": {Missing: []lockagent.AgentID{"A", "B"}},
		"3 more":             {More: 3},
		"A, B, C and 4 more": {Missing: []lockagent.AgentID{"A", "B", "C", "D"}, More: 3},
	} {
		if got := g.MissingText(); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
}

// A snapshot is of its moment, whatever agents tell later of a grace period.
func TestSnapshotOfGrace(t *testing.T) {
	a, s := newAudit(), agent("A").graceBegan("y", "A").graceEnded("y", 3000)
	for _, r := range s.records[:2] {
		a.Add(r)
	}
	before := a.Snapshot()
	a.Add(s.records[2])
	for text, of := range map[string]Snapshot{"": before, `"ended_us"`: a.Snapshot()} {
		checkpoint, err := of.Checkpoint()
		has := func(part string) bool { return strings.Contains(string(checkpoint), part) }
		if err != nil || !has(`"graces":[{"incarnation":"y"`) || has(`"ended_us"`) != (text != "") {
			t.Errorf("%s, %v; want it with %q", checkpoint, err, text)
		}
	}
}

// The second opinion does without grace periods, also if a record of one comes twice.
func TestSecondOpinionOfALogWithGrace(t *testing.T) {
	s := agent("A").graceBegan("y", "A").graceEnded("y", 900).held(1, 1000, 1100).stop()
	var x Independent
	for _, r := range slices.Concat(s.records, agent("A").graceBegan("y", "A").graceEnded("y", 900).records) {
		if err := x.Visit(&r, nil); err != nil {
			t.Fatal(err)
		}
	}
	if o := x.Opinion(); o.Verdict != Proven {
		t.Errorf("%+v", o)
	}
}

// Grace periods are forgotten with all that they could concern, and counted all the same.
func TestGracesAreForgotten(t *testing.T) {
	a, s := newAudit(), agent("A")
	read := func(ms int) {
		for _, r := range s.records {
			r.Position, r.Stored = a.Position()+1, wall(ms)
			a.Add(r)
		}
		s.records = nil
	}
	const many, hour = 20, 3600_000
	for n := range many {
		began := n * hour
		incarnation := fmt.Sprint("i", n)
		s.graceBegan(incarnation, "A").edit(func(r *events.Record) { r.Grace.Began = clock(began) })
		s.graceEnded(incarnation, began+500).edit(func(r *events.Record) { r.Grace.Began = clock(began) })
		for ms := began + 10_000; ms < began+hour; ms += 10_000 {
			s.held(uint64(ms), ms-5000, ms-4000).alive(ms)
			read(ms)
		}
	}
	if n := len(a.stores["s"].Graces); n == 0 || n > 3 {
		t.Errorf("%d grace periods are remembered", n)
	}
	r := a.Report()
	if g := r.Graces.First[0]; r.Graces.Count != many || r.Violations.Count > 0 ||
		g.Ended.Sub(g.Began) != 500*time.Millisecond {
		t.Errorf("%v", r)
	}
}

package audit

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
)

// A log that has lost its beginning knows a hold as well when it is told that the hold goes on.
func TestFoldOfAHoldThatGoesOn(t *testing.T) {
	a := agent("A").leasing(time.Hour).on("i1").granted(1, 1000).reentered(1, 2000).renewed(1, 590_000).holding(1, 601_000)
	whole, late := fold.New(), fold.New()
	for _, r := range a.records {
		whole.Apply(r)
	}
	late.Apply(a.records[0])
	late.Apply(a.records[len(a.records)-1])
	var holds []fold.Hold
	for _, f := range []*fold.Fold{whole, late} {
		l, _ := f.Lock(fold.LockKey{Store: "s", Kind: lockagent.PlainLock, Lock: "a"})
		if len(l.Holders) != 1 {
			t.Fatalf("%+v", l)
		}
		holds = append(holds, l.Holders[0])
	}
	if h := holds[0]; h.Start != clock(1000) || !h.From.Equal(wall(1000)) || h.Grants != 2 ||
		h.Confirmed != clock(590_000) {
		t.Errorf("%+v", h)
	}
	holds[1].Seq = holds[0].Seq // of the first record about it
	if holds[0] != holds[1] {
		t.Errorf("without its beginning the log has\n%+v, and otherwise\n%+v", holds[1], holds[0])
	}
}

// What an agent tells of a hold that goes on must be what it told when the hold began, and a sign of life must be of
// the holds that the log has. Both opinions find what does not fit.
func TestAHoldThatGoesOnIsHeldAgainstItsGrant(t *testing.T) {
	ended := func(s *story) { s.released(1, 9000).returned(1, 9001).stop() }
	for name, test := range map[string]struct {
		change  func(*events.Record) // of the record that it goes on
		verdict Verdict
	}{
		"AllFits":            {func(*events.Record) {}, Proven},
		"Owner":              {func(r *events.Record) { r.Owner = "eve" }, Violated},
		"Incarnation":        {func(r *events.Record) { r.Incarnation = "i9" }, Violated},
		"StoreTime":          {func(r *events.Record) { r.StoreTime++ }, Violated},
		"Count":              {func(r *events.Record) { r.Count++ }, Violated},
		"Token":              {func(r *events.Record) { r.Token++ }, Violated},
		"Tenure":             {func(r *events.Record) { r.Tenure++ }, Violated},
		"How":                {func(r *events.Record) { r.How = 0 }, Proven}, // an agent tells it of first holds only
		"ConfirmedTooLate":   {func(r *events.Record) { r.Confirmed = clock(15_000) }, Violated},
		"ConfirmedEarlier":   {func(r *events.Record) { r.Confirmed = clock(1500) }, Proven},
		"Lock":               {func(r *events.Record) { r.Lock = "other" }, Violated},
		"Mode":               {func(r *events.Record) { r.Mode = lockagent.Shared }, Violated},
		"HeldForLonger":      {func(r *events.Record) { r.Held = 20 * time.Second }, Violated},
		"HeldBeyondItsLease": {func(r *events.Record) { r.Held = time.Minute }, Violated},
		"NoSum": {func(r *events.Record) {
			r.Kind, r.Lock, r.Count, r.Sum, r.StoreTime = lockagent.EventAlive, "", 1, 0, clock(5000)
		}, Violated},
		"TheSumOfOtherHolds": {func(r *events.Record) {
			r.Kind, r.Lock, r.Count, r.Sum, r.StoreTime = lockagent.EventAlive, "", 1, 7, clock(5000)
		}, Violated},
	} {
		t.Run(name, func(t *testing.T) {
			a := agent("A").on("i1").granted(1, 1000).renewed(1, 4000).holding(1, 5000).edit(test.change)
			ended(a)
			if r := audited(a.records); r.Verdict != test.verdict {
				t.Errorf("the audit says\n%v", r)
			}
			o := opinionOf(a.records)
			if good := test.verdict == Proven; good != (o.Verdict == Proven) {
				t.Errorf("the second opinion is %+v", o)
			}
		})
	}
}

// A log has lost its beginning. It tells later that a hold goes on which began before. So what was granted beside the
// hold is an overlap.
func TestAHoldFromBeforeTheBeginningOverlaps(t *testing.T) {
	a, b := agent("A").leasing(time.Hour).granted(1, 1000), agent("B").alive(100)
	s := new(tape).lose(1000, a, b)
	s.add(20_000, a.alive(20_000), b.alive(20_000)).add(25_000, b.granted(1, 25_000)).
		add(26_000, a.renewed(1, 25_500).holding(1, 26_000))
	s.add(30_000, b.released(1, 29_000).returned(1, 29_001), a.alive(30_000), b.alive(30_000))
	s.live(40_000, 100_000, a, b).add(101_000, a.released(1, 101_000).returned(1, 101_001).stop(), b.stop())
	if r := s.read(newAudit()).Report(); r.Verdict != Violated || r.Violations.Count != 1 ||
		r.Violations.First[0].Kind != Overlap {
		t.Errorf("%v", r)
	}
}

// What was dropped only said that a hold goes on. So nothing is missing.
func TestDroppedRecordsThatAHoldGoesOn(t *testing.T) {
	a := agent("A").granted(1, 1000).dropped(lockagent.EventHolding).released(1, 9000).returned(1, 9001).stop()
	if r := audited(a.records); r.Verdict != Proven {
		t.Errorf("%v", r)
	}
}

// A process goes on with the holds of the one before, whose last records are lost. If it has the sum of those that the
// log has, there is no other. Otherwise its crash touches the time since then.
func TestAuditOfHoldsThatGoOnInAnotherProcess(t *testing.T) {
	for name, test := range map[string]struct {
		other   uint64 // by how much the sum is that of other holds
		verdict Verdict
		found   string
	}{
		"TheHoldsOfTheLog": {0, Proven, "not stopped: 2, open: 1"},
		"OtherHolds":       {1, Incomplete, "not stopped: 2, open: 1, unproven: 1"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := agent("A").of("l").leasing(time.Hour).granted(1, 1000), agent("B").of("b")
			sum := lockagent.HoldSum("l", 1, a.latest[1]) + test.other
			s := new(tape).add(2000, a.alive(2000), b.alive(2000))
			s.add(4000, a.next().edit(func(r *events.Record) { r.Count, r.Sum = 1, sum }))
			for ms := 5000; ms <= 95_000; ms += 10_000 {
				s.add(ms, a.alive(ms).edit(func(r *events.Record) { r.Count, r.Sum = 1, sum }), b.alive(ms))
				if ms == 35_000 {
					b.held(1, 40_000, 41_000)
				}
			}
			s.live(106_000, 206_000, b).add(207_000, b.stop())
			s.want(t, test.verdict, test.found, "")
		})
	}
}

// An agent tells that its hold goes on when the lease is over that the store has confirmed. Nothing tells the end.
func TestAHoldThatGoesOnBeyondItsLease(t *testing.T) {
	a := agent("A").granted(1, 1000).holding(1, 301_000).alive(302_000)
	if r := audited(recordsOf([]*story{
		a, agent("B").held(1, 100_000, 101_000).alive(302_000).stop(),
	})); r.Verdict != Violated {
		t.Errorf("%v", r)
	}
}

// A log that begins late does not have a hold with which the next process of its agent goes on. The process tells of
// the hold a while after its start. So what others held meanwhile is judged then.
func TestAuditOfAHoldThatTheNextProcessTells(t *testing.T) {
	for name, test := range map[string]struct {
		tells   bool
		verdict Verdict
	}{"Told": {true, Proven}, "NotTold": {false, Incomplete}} {
		t.Run(name, func(t *testing.T) {
			a, b := agent("A").of("l").leasing(time.Hour).granted(1, 1000), agent("B").of("b")
			sum := lockagent.HoldSum("l", 1, a.latest[1])
			has := func(r *events.Record) { r.Count, r.Sum = 1, sum }
			s := new(tape).lose(2000, a, b).live(10_000, 10_000, b).add(40_000, a.next().edit(has))
			for ms := 50_000; ms <= 140_000; ms += 10_000 {
				if ms == 70_000 && test.tells {
					a.holding(1, ms)
				}
				if ms == 50_000 {
					b.held(1, 46_000, 47_000)
				}
				s.add(ms, a.alive(ms).edit(has), b.alive(ms))
			}
			s.add(150_000, a.stop(), b.stop())
			if r := s.read(newAudit()).Report(); r.Verdict != test.verdict {
				t.Errorf("%v", r)
			}
		})
	}
}

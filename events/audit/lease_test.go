package audit

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
	"github.com/lockagent/lockagent/events/internal/show"
)

// A fold and an audit take the lease of a hold that has no end for over at the same time. The grant of a
// lock that was passed tells only the lease of the pass.
func TestLeaseEndOfAHold(t *testing.T) {
	renewing := func(ms int, lease time.Duration) func(*story) {
		return func(s *story) {
			s.alive(ms + 500).edit(func(r *events.Record) { r.Confirmed, r.Lease = clock(ms), lease })
		}
	}
	for name, test := range map[string]struct {
		holder *story
		then   func(*story)
		want   lockagent.StoreTime
	}{
		"Granted": {agent("A").granted(1, 1000), nil, clock(31_000)},
		"Renewed": {agent("A").granted(1, 1000), renewing(11_000, 30*time.Second), clock(41_000)},
		"Passed":  {agent("A").leasing(lockagent.PassLease).granted(1, 1000), nil, clock(3000)},
		"PassedAndKept": {
			agent("A").leasing(lockagent.PassLease).granted(1, 1000), renewing(2000, 10*time.Second), clock(12_000),
		},
		"PassedAndFixed": {
			fixed(agent("A").leasing(lockagent.PassLease)).granted(1, 1000), renewing(2000, time.Minute), clock(62_000),
		},
		"Fixed": {
			fixed(agent("A").leasing(5*time.Second)).granted(1, 1000), renewing(4000, 30*time.Second), clock(6000),
		},
		"LongRenewalOver": {
			agent("A").leasing(10*time.Second).granted(1, 1000),
			func(s *story) { renewing(2000, time.Hour)(s); renewing(9000, 10*time.Second)(s) }, clock(19_000),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if test.then != nil {
				test.then(test.holder)
			}
			f := fold.New()
			for _, r := range test.holder.records {
				f.Apply(r)
			}
			l, _ := f.Lock(fold.LockKey{Store: "s", Lock: "a"})
			if end := l.Holders[0].LeaseEnd(); end != test.want {
				t.Errorf("the fold says %v, want %v", show.Store(end), show.Store(test.want))
			}
			for after, want := range map[time.Duration]int{-time.Millisecond: 1, time.Millisecond: 0} {
				at := int(test.want.Add(after).Sub(clock(0)).Milliseconds())
				next := agent("B").granted(1, at).released(1, at+10).stop()
				r := audited(recordsOf([]*story{test.holder, next}))
				unproven := 0
				for _, u := range r.Unproven.First {
					if u.Hold.Agent == "A" {
						unproven++
					}
				}
				if unproven != want {
					t.Errorf("a hold that begins %v after: the audit says\n%v", after, r)
				}
			}
		})
	}
}

// An agent renews its lease in the end of its log that is lost. Another agent may have had the lock then, in a lost
// end of its own: nothing tells of that hold, so the first one is not proven.
func TestRenewalInALostEnd(t *testing.T) {
	for name, test := range map[string]struct {
		lease func(*story) *story
		next  int // when the next process of the holder says that it lives, or 0
		other int // when the other agent says so for the last time
		want  Verdict
		found string
	}{
		"TheOtherEndBeginsLater":  {nil, 0, 20_000, Proven, "not stopped: 2, open: 1"},
		"TheOtherEndIsBeside":     {nil, 0, 7000, Incomplete, "not stopped: 2, open: 1, unproven: 1"},
		"TheLeaseIsNotRenewed":    {fixed, 0, 7000, Proven, "not stopped: 2, open: 1"},
		"TheNextProcessBeginsNow": {nil, 6500, 7000, Proven, "not stopped: 2, open: 1"},
		"TheNextProcessIsSlow":    {nil, 60_000, 30_000, Incomplete, "not stopped: 2, open: 1, unproven: 1"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b, c := agent("A").leasing(5*time.Second), agent("B").of("b"), agent("C").of("c")
			if test.lease != nil {
				test.lease(a)
			}
			s := new(tape).add(4000, a.granted(1, 1000).alive(4000), b, c)
			for ms := 5000; ms <= 200_000; ms += 500 {
				if ms == test.next {
					s.add(ms, a.next().alive(ms).stop())
				}
				if ms == test.other {
					s.add(ms, b.alive(ms))
				}
				if ms%10_000 == 0 {
					s.add(ms, c.alive(ms))
				}
			}
			s.add(201_000, c.stop()).want(t, test.want, test.found, "")
		})
	}
}

// An agent counts as dead after an outage of NATS. It may have lived for longer than its lease, so its hold is not
// judged yet. Another one is, which began when that lease seemed to be over. Then the agent goes on after all. It is
// late, and what was found of its lost end stays.
func TestHoldThatOutlastsItsAgent(t *testing.T) {
	a, b, c := agent("A").leasing(9*time.Second).granted(1, 1000), agent("B"), agent("C").of("c")
	s := new(tape).add(1500, a, b, c)
	s.add(46_000, b.granted(1, 13_000).released(1, 20_000), c).add(50_000, c.alive(50_000)).live(56_000, 106_000, b)
	auditor := s.read(newAudit())
	if n := auditor.stores["s"].Holds; n != 1 {
		t.Fatalf("%d holds are judged", n)
	}
	s.records = nil
	s.add(107_000, a.renewed(1, 12_000).lost(lockagent.LostClosed, 1, 15_000).alive(107_000).stop(), b.stop(),
		c.alive(107_000).stop())
	wantReport(t, s.read(auditor).Report(), Incomplete, "late: 1, not stopped: 1, unproven: 2",
		"the log told of it when all up to")
}

// Nothing tells when the agent crashed, nor then when its hold was over.
func TestRenewalInAnEndThatNothingBounds(t *testing.T) {
	verdicts{
		"AnotherEndIsLost": {
			[]*story{agent("A").leasing(5*time.Second).granted(1, 1000).alive(4000).next(), agent("B").alive(60_000)},
			Incomplete, "not stopped: 3, open: 1, unproven: 1", `agent B, billing on host-B, pid 7 (epoch 1) did not stop`,
		},
		"NoOther": {
			[]*story{agent("A").leasing(5*time.Second).granted(1, 1000).alive(4000).next(), agent("B").alive(60_000).stop()},
			Proven, "not stopped: 2, open: 1", "",
		},
	}.check(t)
}

// A process stops with a hold, and no process goes on with that. The log does not tell of the last renewal. Others have
// begun with a longer lease, so that renewal may have asked for this one.
func TestHoldThatNobodyGoesOnWith(t *testing.T) {
	left := func(s *story) *story {
		return s.held(1, 1000, 1100).leasing(9*time.Second).granted(2, 2000).stop()
	}
	user := func(id lockagent.AgentID) *story { return agent(id).permits(lockagent.Semaphore, 1, 1) }
	set := func() *story { return user("A").changes(500, lockagent.TrySetPermits, 1) }
	next := func(s *story, at int) *story { return s.held(1, at, at+100).stop() }
	verdicts{
		"TheNextWithinTheLongerLease": {
			[]*story{left(agent("A")), next(agent("B"), 31_900)}, Incomplete, "unproven: 1", "before its lease was over",
		},
		"TheNextBehindIt": {[]*story{left(agent("A")), next(agent("B"), 32_000)}, Proven, "", ""},
		"PermitsWithinTheLongerLease": {
			[]*story{left(set()), next(user("B"), 31_900)}, Incomplete, "unproven: 1", "up to 2 of 1",
		},
		"PermitsBehindIt": {[]*story{left(set()), next(user("B"), 32_000)}, Proven, "", ""},
	}.check(t)
}

// An agent closes its locks, and a fixed lease stays in the store.
func TestFoldOfALeaseThatIsLeft(t *testing.T) {
	left := func(s *story) *story { return fixed(s).granted(1, 1000).lost(lockagent.LostClosed, 1, 5000) }
	sharing := func(id lockagent.AgentID) *story { return agent(id).in(lockagent.Shared) }
	for name, test := range map[string]struct {
		stories []*story
		want    int
	}{
		"Left":              {[]*story{left(agent("A")).stop()}, 1},
		"TheGrantIsMissing": {[]*story{{records: left(agent("A")).stop().records[2:]}}, 1},
		"Kept":              {[]*story{agent("A").granted(1, 1000).lost(lockagent.LostClosed, 1, 5000).stop()}, 0},
		"Expired":           {[]*story{fixed(agent("A")).granted(1, 1000).lost(lockagent.LostExpired, 1, 31_000).stop()}, 0},
		"Returned":          {[]*story{left(agent("A")).returned(1, 5001).stop()}, 0},
		"Broken":            {[]*story{left(agent("A")).stop(), agent("B").broke(6000)}, 0},
		"GrantedToTheNext":  {[]*story{left(agent("A")).stop().next().granted(2, 40_000)}, 0},
		"GrantedToAnother":  {[]*story{left(agent("A")).stop(), agent("B").held(1, 40_000, 40_001)}, 0},
		"GrantedBefore":     {[]*story{left(agent("A")).stop(), agent("B").held(1, 500, 501)}, 1},
		"Shared":            {[]*story{left(sharing("A")).stop(), sharing("B").held(1, 6000, 6001)}, 1},
		"ToldLate":          {[]*story{agent("B").held(1, 40_000, 40_001), left(agent("A")).stop()}, 0},
		"OfAnotherIdentity": {[]*story{left(agent("A").at("x")), agent("B").at("s").reset(lockagent.Reset{Store: "x"})}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := fold.New()
			for _, r := range recordsOf(test.stories) {
				f.Apply(r)
			}
			l, _ := f.Lock(fold.LockKey{Store: "s", Lock: "a"})
			if len(l.Left) != test.want || len(l.Now()) > 1 {
				t.Fatalf("%+v", l)
			}
			for _, h := range l.Left {
				if h.LeaseEnd() != clock(31_000) || h.Agent != "A" || !h.Left || h.Reason != lockagent.LostClosed ||
					h.Store != f.Store("s") {
					t.Errorf("%+v", h)
				}
			}
		})
	}
}

func fixed(s *story) *story {
	s.fixed = true
	return s
}

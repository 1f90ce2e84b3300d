package audit

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
)

// nameless begins the log of an agent that does not know yet which store it uses.
func nameless(id lockagent.AgentID) *story {
	return agent(id).edit(func(r *events.Record) { r.Store = "" }).at("")
}

// unordered is a log without positions and times of storage.
func unordered(s *tape) (records []events.Record) {
	for _, r := range s.records {
		r.Position, r.Stored = 0, time.Time{}
		records = append(records, r)
	}
	return records
}

// An agent has not named its store, and records of it are missing: it may have had the lock of any store.
func TestAuditOfAnAgentWithoutAStore(t *testing.T) {
	for name, test := range map[string]struct {
		log         func(a, b *story) *tape
		found, says string
	}{
		"ItCrashedAndCameBack": { // and never named its store
			func(a, b *story) *tape {
				s := new(tape).add(0, a, b).live(1000, 21_000, b).add(22_000, a.next())
				return s.add(22_500, b.held(1, 500, 20_500)).add(23_000, a.stop()).live(31_000, 61_000, b).
					add(62_000, b.held(2, 61_500, 61_600).stop())
			},
			"not stopped: 1, unproven: 1", "agent A, billing on host-A, pid 7 (epoch 1) did not stop",
		},
		"ItCrashed": {
			func(a, b *story) *tape {
				s := new(tape).add(0, b).live(1000, 21_000, b).add(22_000, a).add(23_000, b.held(1, 22_500, 22_600))
				return s.live(31_000, 121_000, b).add(122_000, b.held(2, 121_500, 121_600).stop())
			},
			"not stopped: 1, unproven: 1", "agent A, billing on host-A, pid 7 (epoch 1) did not stop",
		},
		"ItsRecordsAreMissing": {
			func(a, b *story) *tape {
				s := new(tape).add(0, a, b).live(1000, 21_000, b).add(22_000, b.held(1, 500, 20_500)).
					add(23_000, a.missing(2).stop())
				return s.live(31_000, 61_000, b).add(62_000, b.held(2, 61_500, 61_600).stop())
			},
			"missing: 1, unproven: 1", "for its records 2 to 3 are missing",
		},
		"TheOtherNamesItsStoreLater": {
			func(a, _ *story) *tape {
				b := nameless("B")
				s := new(tape).add(0, a).add(1000, b).add(1500, a.missing(2).stop())
				return s.add(2000, b.at("s").alive(2000)).add(3000, b.held(1, 1100, 2500)).live(11_000, 61_000, b).
					add(62_000, b.held(2, 61_500, 61_600).stop())
			},
			"missing: 1, unproven: 1", "for its records 2 to 3 are missing",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := test.log(nameless("A"), agent("B"))
			s.want(t, Incomplete, test.found, test.says)
			if r := audited(unordered(s)); r.Verdict != Incomplete || r.Unproven.Count == 0 {
				t.Errorf("without an order: %v", r)
			}
			// A checkpoint at any place changes nothing.
			want := s.read(newAudit()).Report()
			for i := range s.records {
				a := newAudit()
				a.ReadsAll()
				for j := range s.records {
					if i == j {
						a = resumed(t, a)
					}
					a.Add(s.records[j])
				}
				if got := a.Report(); got.String() != want.String() {
					t.Fatalf("with a checkpoint before record %d:\n%v\nwithout:\n%v", i, got, want)
				}
			}
		})
	}
}

// A living agent that has not named its store may still tell of a hold in any.
func TestAuditWaitsForAnAgentWithoutAStore(t *testing.T) {
	a, b, c := nameless("A"), agent("B"), agent("C")
	s := new(tape).add(0, a, b, c).live(1000, 41_000, a, b, c)
	s.add(42_000, b.held(1, 41_500, 41_600)).live(51_000, 101_000, a, b, c)
	if r := s.read(newAudit()).ReportAt(wall(101_000)); r.Stores[0].Holds > 0 || r.Stores[0].Pending != 1 {
		t.Errorf("judged while A may have had the lock:\n%v", r)
	}
	s.add(102_000, a.at("s").held(1, 41_550, 41_650)).live(111_000, 131_000, a, b, c).
		add(132_000, a.stop(), b.stop(), c.stop())
	s.want(t, Violated, "overlap: 1", "")
}

// The identity of the store becomes known while an agent has a hold. The hold ends, and is one of that store.
func TestAuditOfAHoldThatBeganWithoutAStore(t *testing.T) {
	log := func(from int) *tape {
		a, b := nameless("A").granted(1, 1000).alive(1500).at("s").alive(2000), agent("B")
		s := new(tape).add(2500, a, b)
		s.add(6000, a.released(1, 5000).returned(1, 5001).alive(6000), b.held(1, from, from+500).alive(6000))
		return s.live(16_000, 46_000, a, b).add(47_000, a.stop(), b.stop())
	}
	log(5100).want(t, Proven, "", "")
	log(1200).want(t, Violated, "overlap: 1", "")
	f := fold.New()
	for _, r := range log(5100).records {
		f.Apply(r)
	}
	for l := range f.Locks() {
		if len(l.Holders) > 0 {
			t.Errorf("still held: %+v", l)
		}
	}
}

// A whole fleet starts when the identity of its store is not known, as that of a quorum while a node is down. What it
// held was judged when the identity becomes known, and is of that store.
func TestAuditOfAFleetThatNamesItsStoreLater(t *testing.T) {
	log := func(late func(c *story)) *tape {
		a, b, c := nameless("A"), nameless("B"), nameless("C").of("c")
		s := new(tape).add(0, a, b, c).live(1000, 41_000, a, b, c).
			add(42_000, a.held(1, 41_500, 41_600), b.held(1, 41_800, 41_900))
		s.live(51_000, 101_000, a, b, c).
			add(102_000, a.at("s").held(2, 101_500, 101_600), b.at("s").held(2, 101_800, 101_900))
		if late != nil {
			late(c.of("a").at("s"))
		}
		return s.add(103_000, c.at("s").alive(103_000)).live(111_000, 131_000, a, b, c).
			add(132_000, a.stop(), b.stop(), c.stop())
	}
	log(nil).want(t, Proven, "", "judged: 4 tenures of store s, from 2026-03-01T14:00:41.500Z\n")
	log(func(c *story) { c.held(1, 41_550, 41_580) }).
		want(t, Incomplete, "unproven: 1", "the log told of it when all up to")
	log(func(c *story) { c.held(1, 101_550, 101_580) }).want(t, Violated, "overlap: 1", "")
	whole := log(nil)
	if r := resumed(t, whole.read(newAudit())).Report(); r.Verdict != Proven {
		t.Errorf("resumed: %v", r)
	}
}

// The wall clock of an agent that stops is an hour behind. Nothing is proven by it.
func TestAuditOfAHoleBeforeAStopOnAWrongClock(t *testing.T) {
	for _, behind := range []time.Duration{0, time.Hour, -time.Hour} {
		a, b := agent("A").of("b"), agent("B").of("b")
		s := new(tape).add(0, a, b).live(1000, 11_000, a, b).live(21_000, 41_000, b).add(51_000, b.held(1, 50_000, 50_100))
		s.live(51_000, 61_000, b)
		s.add(65_000, a.missing(2).stop().edit(func(r *events.Record) { r.Time = wall(65_000).Add(-behind) }))
		s.live(71_000, 161_000, b).add(171_000, b.held(2, 170_000, 170_100).stop())
		s.want(t, Incomplete, "missing: 1, unproven: 1", "for its records 4 to 5 are missing")
		if r := audited(unordered(s)); r.Verdict != Incomplete || r.Unproven.Count == 0 ||
			r.Unproven.First[0].Hold.Start != clock(50_000) {
			t.Errorf("without an order, %v behind:\n%v", behind, r)
		}
	}
}

// An agent tells that the clock of the store was set before it names the store. Times of the store that it names are
// not compared across that step.
func TestAStepThatIsToldBeforeTheStoreIsNamed(t *testing.T) {
	a := nameless("A").reset(setBy(60_000, 10_000, 70_000)).at("s").held(1, 70_500, 71_000)
	b := agent("B").granted(1, 9000).ended(lockagent.EventLost, lockagent.LostDeadline, 1, 39_000)
	s := new(tape).add(0, b).add(20_000, a).live(80_000, 180_000, a, b).add(190_000, a.stop(), b.stop())
	if r := s.read(newAudit()).Report(); r.Verdict != Incomplete || r.Resets.Count != 1 {
		t.Errorf("%v", r)
	}
}

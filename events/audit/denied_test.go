package audit

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// deniedSlowly ends a hold by an answer that the store gave at a time. The answer took so long that it leaves open up
// to which time the hold went on.
func (s *story) deniedSlowly(at, lost, until int) *story {
	s.lost(lockagent.LostDenied, 1, lost).edit(func(r *events.Record) { r.Until = clock(until) })
	return s.foundOver(1, at)
}

// An answer that denies a tenure tells when the store denied it, and no more of its end than the lease does.
func TestAuditOfSlowDenials(t *testing.T) {
	a := func() *story { return agent("A").on("x").granted(1, 1000) } // until 31 s
	slowly := func() *story { return a().deniedSlowly(29_000, 29_500, 33_000).stop() }
	broke := func() *story { return agent("B").on("x").broke(28_000) }
	short := func(s *story) *story { return s.edit(func(r *events.Record) { r.Held = time.Second }) }
	late := func(s *story, at int) *story {
		return short(s.lost(lockagent.LostDenied, 1, at)).foundOver(1, at).stop()
	}
	verdicts{
		"NobodyElse": {[]*story{slowly(), broke().stop()}, Proven, "", ""},
		"TheNextBesideIt": {
			[]*story{slowly(), broke().held(1, 28_500, 29_200).stop()}, Explained, "explained: 1", "olga",
		},
		"TheNextBehindItsLease": {[]*story{slowly(), broke().held(1, 31_500, 32_000).stop()}, Proven, "", ""},
		"TheNextWithinItsLease": {[]*story{slowly(), broke().held(1, 30_000, 30_500).stop()}, Explained, "explained: 1", ""},
		"TheNextWithoutACause": {
			[]*story{slowly(), agent("B").on("x").held(1, 28_500, 28_900).stop()}, Violated, "overlap: 1", "",
		},
		"WithoutACause":  {[]*story{slowly()}, Incomplete, "unproven: 1", "the log does not say why"},
		"HeldForTooLong": {[]*story{a().deniedSlowly(31_000, 32_000, 32_100).stop()}, Violated, "outlived its lease: 1", ""},
		"HeldWhenItsLeaseWasOver": {
			[]*story{late(a(), 31_100)}, Violated, "outlived its lease: 1", "it was still held when the store denied it at",
		},
		"ByTheNextServer": {
			[]*story{late(a().reset(emptied("x", "y", 30_000)), 31_900)}, Proven, "", "",
		},
		"ByTheNextServerMuchLater": {
			[]*story{late(a().reset(emptied("x", "y", 30_000)), 32_100)}, Violated, "outlived its lease: 1", "",
		},
	}.check(t)
	for name, test := range map[string]struct {
		next int
		want Verdict
	}{"Behind": {29_600, NoVerdict}, "BehindItsLease": {31_100, Proven}, "Beside": {28_500, Violated}} {
		t.Run("Independent"+name, func(t *testing.T) {
			o := opinionOf(recordsOf([]*story{slowly(), agent("B").on("x").held(1, test.next, test.next+100).stop()}))
			if o.Verdict != test.want {
				t.Errorf("%+v", o)
			}
		})
	}
}

// A first hold that waits for a renewal begins later than its tenure. Others who share the lock have begun meanwhile,
// and have greater tokens.
func TestAuditOfAFirstHoldThatWaited(t *testing.T) {
	waited := func(s *story, began int) *story {
		s.granted(1, 1000).edit(func(r *events.Record) { r.StoreTime, r.Confirmed = clock(began), clock(1500) })
		s.renewed(1, 1500).released(1, 2000).edit(func(r *events.Record) { r.Held = 500 * time.Millisecond })
		return s.returned(1, 2001).stop()
	}
	beside := func(s *story) *story { return s.granted(1, 1200).released(1, 3000).returned(1, 3001).stop() }
	reader := func(id lockagent.AgentID) *story { return agent(id).in(lockagent.Shared) }
	user := func(id lockagent.AgentID) *story { return agent(id).permits(lockagent.Permits, 1, 2) }
	set := func() *story { return user("A").changes(500, lockagent.TrySetPermits, 2) }
	verdicts{
		"Readers":         {[]*story{waited(reader("A"), 1000), beside(reader("B"))}, Proven, "", ""},
		"ReadersThatFell": {[]*story{waited(reader("A"), 1500), beside(reader("B"))}, Violated, "token fell: 1", ""},
		"Permits":         {[]*story{waited(set(), 1000), beside(user("B"))}, Proven, "", ""},
		"PermitsThatFell": {[]*story{waited(set(), 1500), beside(user("B"))}, Violated, "token fell: 1", ""},
		"WriterBehind":    {[]*story{waited(agent("A"), 1000), agent("B").held(1, 2100, 2200).stop()}, Proven, "", ""},
		"WriterBeforeTheReply": {
			[]*story{waited(agent("A"), 1000), agent("B").held(1, 1200, 1300).stop()}, Violated, "overlap: 1", "",
		},
	}.check(t)
}

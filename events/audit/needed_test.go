package audit

import (
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// The grant of a hold is missing, by which an owner had a lock alone. The next owner of the tenure reads, and an owner
// of another agent does so, too. That is no overlap.
func TestAHoldThatAppearsIsAloneUntilItsEnd(t *testing.T) {
	a := agent("A").leasing(time.Minute).granted(1, 1000).released(1, 2000).handedOff(1, 2100)
	a.records = a.records[:len(a.records)-1]
	a.holding(1, 2500).released(1, 3000).in(lockagent.Shared).handedOff(1, 3100).released(1, 9000).returned(1, 9001)
	b := agent("B").in(lockagent.Shared).held(1, 6000, 7000)
	verdicts{
		"": {
			[]*story{a.stop(), b.stop()},
			Incomplete, "missing: 1, unproven: 1",
			"the log tells that it goes on, and does not have its grant",
		},
	}.check(t)

	// The token of the reader has to be greater than that of the hold.
	log := recordsOf([]*story{a, b})
	for i := range log {
		if log[i].Agent == "B" && log[i].Token != 0 {
			log[i].Token = lockagent.Token(clock(1000)) + 1
		}
	}
	if r := audited(log); r.Violations.Count != 1 || r.Violations.First[0].Kind != TokenFell {
		t.Errorf("%v", r)
	}
}

// A change of the number of permits is told late. A grant that came after the change told of more permits than the log
// explained by then, so that number has the change.
func TestAuditOfPermitsRaisedLate(t *testing.T) {
	a := agent("A").permits(lockagent.Semaphore, 1, 2).changes(500, lockagent.TrySetPermits, 2)
	b := agent("B").permits(lockagent.Semaphore, 1, 3)
	s := new(tape).add(1000, a, b).add(6000, b.held(1, 5000, 5100)).live(10_000, 30_000, a, b)
	s.add(31_000, a.changes(4000, lockagent.AddPermits, 1))
	s.add(33_000, b.permits(lockagent.Semaphore, 4, 0).held(2, 32_000, 32_100)).live(40_000, 80_000, a, b)
	s.add(81_000, a.stop(), b.stop()).want(t, Incomplete, "unproven: 2", "up to 4 of 3")
}

// A change of the number of permits is told late. Another change has set the number since.
func TestAuditOfPermitsRaisedBeforeTheyWereSet(t *testing.T) {
	a := agent("A").permits(lockagent.Permits, 1, 2).changes(500, lockagent.TrySetPermits, 2)
	b := agent("B").permits(lockagent.Permits, 3, 0)
	s := new(tape).add(1000, a, b).add(6000, b.changes(5000, lockagent.SetPermits, 2)).live(10_000, 30_000, a, b)
	s.add(31_000, a.changes(4000, lockagent.AddPermits, 1))
	s.add(33_000, b.held(1, 32_000, 32_100)).live(40_000, 80_000, a, b)
	s.add(81_000, a.stop(), b.stop()).want(t, Incomplete, "unproven: 1", "up to 3 of 2")
}

// The nodes of a quorum have a clock each. So times that are told of one hold may differ by more than those of one
// store.
func TestTimesOfAQuorum(t *testing.T) {
	of := func(store string) []*story {
		a := agent("A").at(store).edit(func(r *events.Record) { r.Store = store })
		return []*story{a.granted(1, 1000).released(1, 5000).returned(1, 4500).stop()}
	}
	verdicts{
		"Quorum":   {of("quorum-1"), Proven, "", ""},
		"OneStore": {of("redis-1"), Incomplete, "unproven: 1", "the two clocks ran at different rates"},
	}.check(t)
}

// An agent returns a tenure while a reader has it, and lets another reader join.
func TestAuditOfAGrantInAReturnedTenure(t *testing.T) {
	a := agent("A").in(lockagent.Shared).granted(1, 1000)
	first := a.latest[1]
	a.handedOff(1, 1100).endedOf(lockagent.EventReleased, 0, 1, first, 2000).
		edit(func(r *events.Record) { r.Returned = clock(2000) })
	second := a.latest[1]
	a.handedOff(1, 3000).endedOf(lockagent.EventReleased, 0, 1, second, 4000).released(1, 5000)
	verdicts{
		"": {[]*story{a.stop()}, Violated, "contradiction: 1", "it was granted in a tenure that had been returned"},
	}.check(t)
}

// An agent starts, and dies before it has told of any time. What had been judged by then had none of its holds.
func TestAuditOfAnAgentThatStartsLateAndDies(t *testing.T) {
	b := agent("B").held(1, 1000, 2000)
	s := new(tape).add(3000, b).live(10_000, 60_000, b).add(61_000, agent("A")).live(70_000, 150_000, b)
	s.add(151_000, b.stop()).want(t, Proven, "not stopped: 1", "")
}

// A record of one of the last lives is known when it comes again. One of a life before these comes too late.
func TestRecordsOfEarlierLivesComeAgain(t *testing.T) {
	a := agent("A")
	for range 2 * maxEpochs {
		a.alive(1000).stop().next()
	}
	log := a.stop().records
	for n := range maxEpochs {
		again := log[len(log)-2-3*n]
		if r := audited(append(log[:len(log):len(log)], again)); r.Duplicates != 1 || r.Late.Count > 0 {
			t.Errorf("%v of life %d:\n%v", again.Kind, again.Epoch, r)
		}
	}
	r := audited(append(log[:len(log):len(log)], log[1]))
	if r.Verdict != Incomplete || strings.Join(findingsOf(r), ", ") != "late: 1" {
		t.Errorf("%v", r)
	}
}

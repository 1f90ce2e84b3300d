package audit

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// churn makes the log of a fleet in which agents come and go. Each has a lock of its own for a
// moment. One agent lives on.
type churn struct {
	to       func(events.Record)
	now      lockagent.StoreTime
	position uint64
	steady   churner
	told     lockagent.StoreTime // when the steady agent said last that it is alive
	born     int
	resets   int
	restarts churner // comes back in another epoch each time
}

// churnReset is how many steps there are from a reset to the next.
const churnReset = 4096

type churner struct {
	id     lockagent.AgentID
	place  events.Place
	tenure uint64
}

func newChurn(to func(events.Record)) *churn {
	c := &churn{to: to, now: clock(0), steady: churner{id: "steady"}, restarts: churner{id: "restarts"}}
	c.start(&c.steady)
	return c
}

func (c *churn) record(of *churner, e lockagent.Event) {
	of.place.Seq++
	c.position++
	e.Agent, e.Store, e.Time = of.id, "9d8c3a52-0d43-4f0c-a7a0-9a1f6a2b7c11", time.UnixMicro(int64(c.now)).UTC()
	c.to(events.Record{Event: e, Epoch: of.place.Epoch, Seq: of.place.Seq, Position: c.position, Stored: e.Time})
}

func (c *churn) start(of *churner) {
	before := of.place
	of.place = events.Place{Epoch: before.Epoch + 1, Seq: 1}
	c.position++
	c.to(events.Record{Event: lockagent.Event{
		Kind: lockagent.EventAgentStarted, Agent: of.id, Time: time.UnixMicro(int64(c.now)).UTC(),
		Process: lockagent.Process{Host: "pod-" + string(of.id), Program: "billing", Version: "1.2.3", PID: 1},
	}, Epoch: of.place.Epoch, Seq: 1, Position: c.position, Stored: time.UnixMicro(int64(c.now)).UTC(), Follows: before})
}

func (c *churn) hold(of *churner, lock lockagent.Name, kind lockagent.EventKind) {
	of.tenure++
	e := lockagent.Event{
		Kind: kind, Lock: lock, LockKind: lockagent.PlainLock, Mode: lockagent.Exclusive, Owner: "worker-17",
		Request: of.tenure,
		Tenure:  of.tenure, Token: lockagent.Token(c.now), How: lockagent.ByStore, Lease: 30 * time.Second, StoreTime: c.now,
	}
	if kind == lockagent.EventHeld {
		e.Held, e.Confirmed, e.Until, e.Returned = 200*time.Microsecond, c.now, c.now+250, c.now+240
	} else {
		e.Count = 1
	}
	c.record(of, e)
}

// step has one agent come and go, after a while. It may crash while it has the lock.
func (c *churn) step(after time.Duration, crashes bool) {
	c.now = c.now.Add(after)
	if c.now.Sub(c.told) >= heartbeat {
		c.told = c.now
		c.record(&c.steady, lockagent.Event{Kind: lockagent.EventAlive, StoreTime: c.now})
	}
	c.hold(&c.steady, "leader", lockagent.EventHeld)
	c.born++
	if c.born%churnReset == 0 {
		c.resets++
		from, to := fmt.Sprintf("run-%d", c.resets), fmt.Sprintf("run-%d", c.resets+1)
		c.record(&c.steady, lockagent.Event{
			Kind:  lockagent.EventStoreReset,
			Reset: lockagent.Reset{From: from, To: to, Reason: "restarted", After: c.now, Before: c.now + 1000},
		})
		c.record(&c.steady, lockagent.Event{Kind: lockagent.EventStoreReset, Reset: lockagent.Reset{
			From: to, To: to, Reason: "clock stepped", After: c.now.Add(-time.Second), Before: c.now + 2000,
			Step: time.Millisecond,
		}})
	}
	of := churner{id: lockagent.AgentID(fmt.Sprintf("0b5ed3b6-4f0f-4f57-9a0e-%012d", c.born))}
	lock := lockagent.Name(fmt.Sprintf("jobs/%d", c.born))
	c.start(&of)
	switch {
	case crashes && c.born%8 == 0:
		c.hold(&of, lock, lockagent.EventGranted)
		return
	case crashes && c.born%8 == 1:
		return // it has not reached the store
	case crashes && c.born%8 == 2:
		c.start(&c.restarts)
		c.hold(&c.restarts, "again/"+lock, lockagent.EventGranted)
	case crashes && c.born%8 == 3:
		c.record(&of, lockagent.Event{Kind: lockagent.EventQueued, Lock: lock, LockKind: lockagent.PlainLock, Request: 1})
		return
	}
	c.hold(&of, lock, lockagent.EventHeld)
	c.record(&of, lockagent.Event{Kind: lockagent.EventAgentStopped})
}

// sizes names all that an audit keeps, with its number.
func (a *Audit) sizes() map[string]int {
	snapshot, err := a.fold.Snapshot()
	if err != nil {
		panic(err)
	}
	n := map[string]int{
		"agents": len(a.logs), "kilobytes of the fold": len(snapshot) / 1000,
		"past agents": len(a.past.New) + len(a.past.Old),
		"locks":       len(a.locks), "stores": len(a.stores), "watched agents": len(a.watched.spots),
		"spare tenures": len(a.spare),
	}
	for _, s := range a.stores {
		n["names"] += len(s.Names)
		n["holes"] += len(s.Holes)
		n["resets"] += len(s.Resets) + len(s.Steps)
		n["living"] += len(s.living.spots)
		n["locks to judge"] += len(s.locks.spots) + len(s.touched)
	}
	for _, l := range a.locks {
		n["tenures"] += len(l.Spans)
	}
	for _, l := range a.logs {
		n["epochs"] += len(l.Epochs)
		n["holds of agents"] += len(a.fold.Holds(l.ID))
		n["records that wait"] += len(l.pending)
	}
	return n
}

// filling is after how many steps of a churn all is full that an audit bounds.
const filling = 2*mostPast + 2000

// What an audit keeps does not depend on how many agents and locks there were.
func TestAuditForgets(t *testing.T) { auditForgets(t, false, mostPast) }

// What an audit keeps of agents that crash does not depend on how many there were. Names, past agents and resets have
// bounds that are reached later: see TestSoakAuditForgets.
func TestAuditForgetsTheCrashed(t *testing.T) {
	a := New()
	c := newChurn(a.Add)
	run := func() {
		for range 3000 {
			c.step(200*time.Millisecond, true)
		}
	}
	run()
	before := a.sizes()
	run()
	for what, n := range a.sizes() {
		switch limit := before[what] + before[what]/5 + 50; {
		case what == "names", what == "past agents", what == "resets":
		case n > limit:
			t.Errorf("%s: %d, and %d later", what, before[what], n)
		}
	}
	r := a.ReportAt(time.UnixMicro(int64(c.now)))
	if r.Verdict != Incomplete || r.Violations.Count+r.RecordHoles.Count+r.Late.Count > 0 || r.Agents < c.born {
		t.Errorf("%v", r)
	}
}

// auditForgets compares what an audit keeps when all is full with what it keeps so many steps later.
func auditForgets(t *testing.T, crashes bool, later int) {
	t.Helper()
	a := New()
	c := newChurn(a.Add)
	run := func(steps int) {
		for range steps {
			c.step(200*time.Millisecond, crashes)
		}
	}
	run(filling)
	before, text := a.sizes(), checkpointed(t, a)
	run(later)
	after, textAfter := a.sizes(), checkpointed(t, a)
	for what, n := range after {
		if limit := before[what] + before[what]/5 + 50; n > limit && what != "past agents" || n > 3*mostPast {
			t.Errorf("%s: %d, and %d later", what, before[what], n)
		}
	}
	// If none was forgotten, there would be twice as many more.
	if n := after["resets"]; n == 0 || n > before["resets"]+later/churnReset {
		t.Errorf("resets: %d, and %d later", before["resets"], n)
	}
	if textAfter > text+text/4 {
		t.Errorf("the checkpoint has %d bytes, and %d later", text, textAfter)
	}
	if !a.past.Forgotten {
		t.Error("nothing is forgotten")
	}
	r := a.ReportAt(time.UnixMicro(int64(c.now)))
	for _, reason := range r.Unproven.Reasons {
		if !crashes && !strings.HasPrefix(reason.Why, "somebody set the clock of the store") {
			t.Errorf("%d holds: %s", reason.Count, reason.Why)
		}
	}
	if r.Verdict != Incomplete || r.Violations.Count+r.RecordHoles.Count+r.Late.Count > 0 || r.Agents < c.born {
		t.Errorf("%v", r)
	}
	if r.Resets.Count != 2*c.resets {
		t.Errorf("%d resets of %d", r.Resets.Count, 2*c.resets)
	}
	if lag := c.now.Sub(r.Stores[len(r.Stores)-1].To); lag > 2*DefaultPatience+2*heartbeat {
		t.Errorf("the horizon is %v behind", lag)
	}
	t.Log(after)
}

func checkpointed(t *testing.T, a *Audit) (size int) {
	t.Helper()
	text, err := a.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	return len(text)
}

// An agent that comes back when it is forgotten lowers the verdict if that could hide something.
func TestForgottenAgentComesBack(t *testing.T) {
	a := New()
	c := newChurn(func(r events.Record) { a.Add(r) })
	add := func(s *story) {
		for _, r := range s.records {
			c.position++
			r.Position, r.Stored = c.position, time.UnixMicro(int64(c.now)).UTC()
			a.Add(r)
		}
		s.records = nil
	}
	s := agent("A").held(1, 100, 200).stop()
	add(s)
	for range filling {
		c.step(200*time.Millisecond, false)
	}
	if _, known := a.logs["A"]; known || !a.past.Forgotten {
		t.Fatal("it is not forgotten")
	}
	forgetful, before := a, *c
	for _, name := range []string{"InTheSameEpoch", "InTheNext"} {
		t.Run(name, func(t *testing.T) {
			a, *c = forgetful.clone(), before
			if name == "InTheSameEpoch" {
				same := *s // the next case goes on from s
				add(same.alive(0).edit(func(r *events.Record) { r.StoreTime = c.now }))
			} else {
				add(s.next().alive(0).stop())
			}
			for range 200 {
				c.step(200*time.Millisecond, false)
			}
			const says = "records 1 to 3 of agent A, epoch 1"
			if r := a.ReportAt(time.UnixMicro(int64(c.now))); r.Verdict != Incomplete || r.RecordHoles.Count != 1 ||
				r.RecordHoles.First[0].String() != says {
				t.Errorf("%v", r)
			}
		})
	}
}

// BenchmarkPast audits the same load in a log with few and with many past agents and locks. The
// rates should be alike.
func BenchmarkPast(b *testing.B) {
	const few, many = 100, 100_000
	rate := make(map[int]float64)
	for _, past := range []int{few, many} {
		b.Run(fmt.Sprint(past), func(b *testing.B) {
			a := New()
			c := newChurn(a.Add)
			for range past {
				c.step(10*time.Millisecond, false)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				c.step(10*time.Millisecond, false)
			}
			rate[past] = float64(b.N) / b.Elapsed().Seconds()
			b.ReportMetric(rate[past]/rate[few], "x-of-few")
		})
	}
}

// BenchmarkPastAgent measures what an audit keeps of a past agent.
func BenchmarkPastAgent(b *testing.B) {
	const past = 8000
	for b.Loop() {
		before := heapNow()
		a := New()
		c := newChurn(a.Add)
		for range past {
			c.step(time.Second, false)
		}
		b.ReportMetric(float64(heapNow()-before)/float64(len(a.past.New)), "bytes/agent")
		runtime.KeepAlive(a)
	}
}

func heapNow() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkReport makes a report of a log with many past agents, and with few or many locks that are
// held.
func BenchmarkReport(b *testing.B) {
	for _, held := range []int{100, 10_000} {
		b.Run(fmt.Sprint(held), func(b *testing.B) {
			a := New()
			c := newChurn(a.Add)
			for n := range held {
				c.hold(&c.steady, lockagent.Name(fmt.Sprintf("held/%d", n)), lockagent.EventGranted)
			}
			for range 20_000 {
				c.step(10*time.Millisecond, false)
			}
			b.ReportAllocs()
			for b.Loop() {
				_ = a.ReportAt(time.UnixMicro(int64(c.now)))
			}
		})
	}
}

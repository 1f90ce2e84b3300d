package audit

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
)

// synthetic makes the n-th record of a log of whole holds on a few locks by a few agents, with signs
// of life.
type synthetic struct {
	seq    []uint64
	tenure []uint64
	now    lockagent.StoreTime
	ids    []lockagent.AgentID
	locks  []lockagent.Name
	n      uint64
}

func newSynthetic() *synthetic {
	s := &synthetic{now: clock(0)}
	for n := range 8 {
		s.ids = append(s.ids, lockagent.AgentID(fmt.Sprintf("0b5ed3b6-4f0f-4f57-9a0e-0000000000%02d", n)))
		s.locks = append(s.locks, lockagent.Name(fmt.Sprintf("billing/invoices/%04d", n)))
	}
	s.seq, s.tenure = make([]uint64, len(s.ids)), make([]uint64, len(s.ids))
	return s
}

func (s *synthetic) next() events.Record {
	i := int(s.n) % len(s.ids)
	s.n++
	s.seq[i]++
	s.now += 300 // microseconds: 3,300 holds a second
	e := lockagent.Event{
		Kind: lockagent.EventHeld, Agent: s.ids[i], Time: time.UnixMicro(int64(s.now)).UTC(),
		Store: "9d8c3a52-0d43-4f0c-a7a0-9a1f6a2b7c11",
	}
	if s.seq[i] == 1 {
		e.Kind = lockagent.EventAgentStarted
	} else if s.n%(8*4096) < 8 {
		e.Kind, e.StoreTime = lockagent.EventAlive, s.now
	} else {
		s.tenure[i]++
		e.Lock, e.LockKind, e.Mode = s.locks[(i+int(s.n>>10))%len(s.locks)], lockagent.PlainLock, lockagent.Exclusive
		e.Owner, e.Request, e.Tenure, e.Token, e.How = "worker-17", s.n, s.tenure[i], lockagent.Token(s.now),
			lockagent.ByStore
		e.Waited, e.Held, e.Lease = 800*time.Microsecond, 200*time.Microsecond, 30*time.Second
		e.StoreTime, e.Confirmed, e.Until, e.Returned = s.now, s.now, s.now+250, s.now+240
	}
	return events.Record{Event: e, Epoch: 1, Seq: s.seq[i], Position: s.n, Stored: e.Time}
}

// BenchmarkAudit judges a log of whole holds of a few locks, at 3,300 a second. It reports how much
// memory is left in the end.
func BenchmarkAudit(b *testing.B) {
	a := New()
	s := eachSynthetic(b, a.Add)
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapAlloc)/1e6, "MB-in-the-end")
	if r := a.ReportAt(time.UnixMicro(int64(s.now))); b.N > 100 &&
		(r.Verdict != Proven && r.Verdict != Incomplete || r.Violations.Count+r.Unproven.Count+r.RecordHoles.Count > 0) {
		b.Fatalf("%v", r)
	}
}

// BenchmarkAuditOfManyPermits has many permits in use, and others that come and go beside them.
func BenchmarkAuditOfManyPermits(b *testing.B) {
	const many = 2000
	long, short := agent("A").permits(lockagent.Semaphore, 1, many+1), agent("B").permits(lockagent.Semaphore, 1, many+1)
	t := new(tape).add(0, long.changes(500, lockagent.TrySetPermits, many+1), short)
	for n := range many {
		long.granted(uint64(n+1), 1000+n)
	}
	t.add(4000, long)
	for n := range many {
		t.add(5000+30*n, short.held(uint64(n+1), 5000+30*n, 5001+30*n))
		if n%300 == 0 {
			t.add(5000+30*n, long.alive(5000+30*n), short.alive(5000+30*n))
		}
	}
	for b.Loop() {
		a := New()
		a.ReadsAll()
		for _, r := range t.records {
			a.Add(r)
		}
		if r := a.Report(); r.Violations.Count > 0 {
			b.Fatal(r)
		}
	}
}

// BenchmarkFold folds a log of whole holds of a few locks.
func BenchmarkFold(b *testing.B) {
	f := fold.New()
	eachSynthetic(b, func(r events.Record) { f.Apply(r) })
}

// eachSynthetic measures what is done with as many records as the benchmark wants.
func eachSynthetic(b *testing.B, do func(events.Record)) *synthetic {
	const ring = 1 << 16
	s := newSynthetic()
	records := make([]events.Record, 0, ring)
	b.ReportAllocs()
	for done := 0; done < b.N; done += len(records) {
		b.StopTimer()
		records = records[:0]
		for range min(ring, b.N-done) {
			records = append(records, s.next())
		}
		b.StartTimer()
		for i := range records {
			do(records[i])
		}
	}
	return s
}

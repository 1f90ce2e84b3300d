package natslog

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/internal/eventstest"
	"github.com/lockagent/lockagent/events/internal/queue"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
)

// load records what an agent does that is busy. Each call to cycle is one hold.
type load struct {
	p     *Publisher
	e     lockagent.Event
	locks []lockagent.Name
	n     int
}

func newLoad(p *Publisher, locks int) *load {
	l := &load{p: p, e: eventstest.Full(lockagent.EventGranted)}
	l.e.Reset, l.e.Process, l.e.Err, l.e.Holder, l.e.Operator = lockagent.Reset{}, lockagent.Process{}, "", "", ""
	l.e.TraceParent, l.e.Reason, l.e.Returned, l.e.Time = "", 0, 0, time.Now()
	l.e.Waiters, l.e.Remaining, l.e.Confirmed, l.e.Sum = 0, 0, l.e.StoreTime, 0
	l.e.Permits, l.e.Total, l.e.Op, l.e.Permit, l.e.Replicas, l.e.Holds = 0, 0, "", "", 0, 0
	for i := range locks {
		l.locks = append(l.locks, lockagent.Name(fmt.Sprintf("orders/%04d", i)))
	}
	return l
}

func (l *load) record(kind lockagent.EventKind, request, count int) {
	l.e.Kind, l.e.Request, l.e.Count = kind, uint64(request), count
	l.e.Token = lockagent.Token(request)
	l.p.Record(context.Background(), l.e)
}

// pair is a grant and its release.
func (l *load) pair() {
	l.n++
	l.e.Lock = l.locks[l.n%len(l.locks)]
	l.record(lockagent.EventGranted, l.n, 1)
	l.record(lockagent.EventReleased, l.n, 0)
}

// whole is all that is said of an uncontended hold.
func (l *load) whole() {
	l.n++
	l.e.Lock = l.locks[l.n%len(l.locks)]
	l.record(lockagent.EventGranted, l.n, 1)
	l.record(lockagent.EventReleased, l.n, 0)
	l.e.Returned = 1
	l.record(lockagent.EventReturned, l.n, 0)
	l.e.Returned = 0
}

// handOff is a hold of a lock that 64 owners want.
func (l *load) handOff() {
	const owners = 64
	l.n++
	l.e.Lock = l.locks[0]
	l.record(lockagent.EventGranted, l.n, 1)
	l.p.Record(context.Background(), lockagent.Event{
		Kind: lockagent.EventQueued, Time: l.e.Time, Store: l.e.Store, Lock: l.e.Lock, LockKind: l.e.LockKind, Mode: l.e.Mode,
		Owner: l.e.Owner, Request: uint64(l.n + owners), Waiters: owners - 1, Holder: "worker-8",
	})
	l.record(lockagent.EventReleased, l.n, 0)
}

// BenchmarkRecord measures the recorder's side of a hold.
func BenchmarkRecord(b *testing.B) {
	for _, test := range []struct {
		name  string
		locks int
		cycle func(*load)
	}{
		{"Pair", 1, (*load).pair},
		{"HandOff", 1, (*load).handOff},
		{"Whole1000Locks", 1000, (*load).whole},
	} {
		b.Run(test.name, func(b *testing.B) {
			cfg := Config{Connection: Connection{InProcess: &link{}}, Agent: eventstest.Agent, Heartbeat: time.Hour}
			if err := cfg.check(); err != nil {
				b.Fatal(err)
			}
			l := newLoad(unstarted(cfg), test.locks)
			var items []*queue.Item
			cycle := func() {
				test.cycle(l)
				if l.n%1024 == 0 { // as often as the sender would take them
					for {
						items, _, _ = l.p.leave(time.Hour, items[:0])
						if len(items) == 0 {
							break
						}
						l.p.arrive(nil)
						l.p.queue.Gone(items)
					}
				}
			}
			for range 4096 {
				cycle()
			}
			b.ReportAllocs()
			before := processorTime(b)
			for b.Loop() {
				cycle()
			}
			b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
	}
}

// BenchmarkPipeline measures the whole way of hand-offs to a file in an embedded server, at full
// speed and at a given rate. Nothing may be dropped.
func BenchmarkPipeline(b *testing.B) {
	for _, rate := range []int{0, 50_000, 200_000} {
		b.Run(fmt.Sprint("Rate", rate), func(b *testing.B) {
			c := Connection{InProcess: natstest.Start(b, natsserver.Config{})}
			p := newPublisher(b, Config{Connection: c})
			l := newLoad(p, 1)
			before, began := processorTime(b), time.Now()
			for b.Loop() {
				l.handOff()
				if l.n%64 != 0 {
					continue
				}
				if rate == 0 && p.Stats().Queued > DefaultQueueSize/2 {
					flushed(b, p)
				}
				if rate > 0 {
					due := began.Add(time.Duration(l.n) * time.Second / time.Duration(rate))
					if wait := time.Until(due); wait > time.Millisecond {
						<-time.After(wait)
					}
				}
			}
			flushed(b, p)
			s := p.Stats()
			if s.Dropped > 0 {
				b.Fatalf("%+v", s)
			}
			b.ReportMetric(float64(l.n)/time.Since(began).Seconds(), "holds/s")
			b.ReportMetric(float64(s.Records)/float64(l.n), "records/hold")
			b.ReportMetric(float64(s.Records)/float64(s.Messages), "records/message")
			b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/float64(l.n), "cpu-ns/hold")
		})
	}
}

// processorTime is what this process has used until now.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

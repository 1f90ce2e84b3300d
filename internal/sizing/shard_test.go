package sizing

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/renewals"
	"github.com/lockagent/lockagent/redisstore"
)

// spending is what a server has used up.
type spending struct {
	cpu      float64 // seconds
	in, out  float64 // bytes
	commands float64
}

func spent(b *testing.B, s *redistest.Server) spending {
	number := func(section, name string) float64 {
		n, err := strconv.ParseFloat(s.Info(section, name), 64)
		if err != nil {
			b.Fatal(err)
		}
		return n
	}
	return spending{
		cpu:      number("cpu", "used_cpu_sys") + number("cpu", "used_cpu_user"),
		in:       number("stats", "total_net_input_bytes"),
		out:      number("stats", "total_net_output_bytes"),
		commands: float64(s.Calls("evalsha")),
	}
}

// charge reports what each of n things cost the server while f ran.
func charge(b *testing.B, s *redistest.Server, n int, f func()) {
	before := spent(b, s)
	b.ResetTimer()
	f()
	b.StopTimer()
	after := spent(b, s)
	each := func(before, after float64) float64 { return (after - before) / float64(n) }
	b.ReportMetric(1e6*each(before.cpu, after.cpu), "redis-µs/op")
	b.ReportMetric(each(before.commands, after.commands), "commands/op")
	b.ReportMetric(each(before.in, after.in), "in-B/op")
	b.ReportMetric(each(before.out, after.out), "out-B/op")
}

func openStore(b *testing.B, s *redistest.Server) *redisstore.Store {
	store, err := redisstore.Config{GraceFirst: redisstore.NoGraceFirst}.Open(b.Context(), s.URL())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() }) // always nil
	return store
}

func openLocks(b *testing.B, cfg channelapi.Config) *channelapi.Locks {
	locks, err := channelapi.New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := locks.Close(); err != nil {
			b.Error(err)
		}
	})
	return locks
}

func cycle(ctx context.Context, b *testing.B, l *channelapi.Lock) {
	g, err := l.Acquire(ctx)
	if err != nil {
		b.Error(err)
		return
	}
	if err := g.Release(ctx); err != nil {
		b.Error(err)
	}
}

// BenchmarkCycle acquires and releases locks that nobody else wants, from end to
// end, and each time through Redis.
func BenchmarkCycle(b *testing.B) {
	cycles(b, channelapi.Config{NoRest: true}, 1, 1)
	cycles(b, channelapi.Config{NoRest: true}, 1, 64)
	cycles(b, channelapi.Config{NoRest: true}, 1, 1024)
	cycles(b, channelapi.Config{NoRest: true}, 64, 1)
}

// BenchmarkRest does the same with locks that rest.
func BenchmarkRest(b *testing.B) {
	for _, goroutines := range []int{1, 64, 1024} {
		cycles(b, channelapi.Config{}, 1, goroutines)
	}
}

// cycles has goroutines of so many agents acquire and release locks of their own.
func cycles(b *testing.B, cfg channelapi.Config, agents, goroutines int) {
	b.Run(fmt.Sprintf("agents=%d/goroutines=%d", agents, goroutines), func(b *testing.B) {
		b.ReportAllocs()
		server := redistest.Start(b)
		var opened []*channelapi.Locks
		for range agents {
			cfg.Store = openStore(b, server)
			opened = append(opened, openLocks(b, cfg))
		}
		ctx, cancel := context.WithCancel(b.Context()) // as most contexts are
		defer cancel()
		charge(b, server, b.N, func() {
			var all sync.WaitGroup
			for g := range agents * goroutines {
				all.Go(func() {
					lock := opened[g%agents].Lock(fmt.Sprint("own/", g))
					for i := g; i < b.N; i += agents * goroutines {
						cycle(ctx, b, lock)
					}
				})
			}
			all.Wait()
		})
		clients, err := strconv.Atoi(server.Info("clients", "connected_clients"))
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(clients-1)/float64(agents), "connections") // but the one that asks
	})
}

// BenchmarkRivals has two agents want one lock all the time, and nothing handed off
// inside of either, so that each grant is another conversation with Redis.
func BenchmarkRivals(b *testing.B) {
	server := redistest.Start(b)
	var rivals []*channelapi.Lock
	for range 2 {
		rivals = append(rivals, openLocks(b, channelapi.Config{Store: openStore(b, server), HandOffGrants: 1}).Lock("hot"))
	}
	charge(b, server, b.N, func() {
		var all sync.WaitGroup
		for r, lock := range rivals {
			all.Go(func() {
				for i := r; i < b.N; i += len(rivals) {
					cycle(b.Context(), b, lock)
				}
			})
		}
		all.Wait()
	})
}

// BenchmarkRenewal measures renewals of kept locks: so many in a command, or all of an agent at once,
// each of them urgent, as after a restart of Redis.
func BenchmarkRenewal(b *testing.B) {
	const agents, kept = 16, 1000
	server := redistest.Start(b)
	var keepers []*keeper
	for i := range agents {
		k := &keeper{store: openStore(b, server), tenure: lockagent.Tenure{Agent: lockagent.NewAgentID(), Number: 1}}
		for n := range kept {
			k.names = append(k.names, lockagent.Name(fmt.Sprint("kept/", i, "/", n)))
		}
		k.acquire(b)
		keepers = append(keepers, k)
	}
	for _, c := range []struct {
		name   string
		n      int
		urgent bool
	}{
		{"together=1", 1, false},
		{"together=11", 11, false},
		{"together=100", renewals.Most, false},
		{"urgent", kept, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			charge(b, server, b.N, func() {
				var all sync.WaitGroup
				for i, k := range keepers {
					all.Go(func() { k.renew(b, (b.N+i)/agents, c.n, c.urgent) })
				}
				all.Wait()
			})
		})
	}
}

// keeper is an agent that keeps locks, as its store sees it.
type keeper struct {
	store  *redisstore.Store
	tenure lockagent.Tenure
	names  []lockagent.Name
	under  sync.WaitGroup // calls
}

func (k *keeper) acquire(b *testing.B) {
	for _, name := range k.names {
		k.under.Add(1)
		k.store.Acquire(b.Context(), lockagent.AcquireRequest{
			Name: name, Tenure: k.tenure, Lease: time.Hour,
		}, func(r lockagent.AcquireReply, err error) {
			if err != nil || !r.Granted {
				b.Error(r, err)
			}
			k.under.Done()
		})
	}
	k.under.Wait()
}

// renew renews n locks, and waits after every so many. The last of these is urgent, so
// that they are sent together, or all of them are.
func (k *keeper) renew(b *testing.B, n, together int, urgent bool) {
	for i := range n {
		last := (i+1)%together == 0 || i == n-1
		k.under.Add(1)
		k.store.Renew(b.Context(), lockagent.RenewRequest{
			Name: k.names[i%len(k.names)], Tenure: k.tenure, Lease: time.Hour, Urgent: urgent || last,
		}, func(r lockagent.RenewReply, err error) {
			if err != nil || !r.Held {
				b.Error(r, err)
			}
			k.under.Done()
		})
		if last {
			k.under.Wait()
		}
	}
}

// BenchmarkKept keeps locks, from end to end, until they have been renewed so often in
// all. Their lease is short, so that there is much to see.
func BenchmarkKept(b *testing.B) {
	const kept, lease = 5000, 3 * time.Second
	server := redistest.Start(b)
	r := &renewed{enough: int64(b.N), done: make(chan struct{})}
	locks := openLocks(b, channelapi.Config{Store: openStore(b, server), Recorder: r, Lease: lease})
	var asked []<-chan lockagent.Grant
	for i := range kept {
		asked = append(asked, locks.Lock(fmt.Sprint("kept/", i)).AcquireAsync(b.Context()))
	}
	var held []lockagent.Grant // what nobody refers to is given back
	for _, c := range asked {
		g := <-c
		if err := g.Err(); err != nil {
			b.Fatal(err)
		}
		held = append(held, g)
	}
	charge(b, server, b.N, func() { <-r.done })
	runtime.KeepAlive(held)
}

// renewed is a recorder that waits for renewals.
type renewed struct {
	enough int64
	seen   atomic.Int64
	done   chan struct{}
}

func (r *renewed) Record(_ context.Context, e lockagent.Event) {
	if e.Kind == lockagent.EventRenewed && r.seen.Add(1) == r.enough {
		close(r.done)
	}
}

// BenchmarkRedisMemory reports what Redis needs for a lock that is held, and for one
// that was released a moment ago.
func BenchmarkRedisMemory(b *testing.B) {
	const locks = 100_000
	server := redistest.Start(b)
	memory := func() float64 {
		n, err := strconv.ParseFloat(server.Info("memory", "used_memory"), 64)
		if err != nil {
			b.Fatal(err)
		}
		return n
	}
	for b.Loop() {
		server.Do("FLUSHALL")
		l := openLocks(b, channelapi.Config{Store: openStore(b, server)})
		empty := memory()
		grants := make([]<-chan lockagent.Grant, locks)
		for i := range grants {
			grants[i] = l.Lock(fmt.Sprintf("orders/%08d", i)).AcquireAsync(b.Context())
		}
		held := make([]lockagent.Grant, locks)
		for i, c := range grants {
			held[i] = <-c
		}
		b.ReportMetric((memory()-empty)/locks, "B/held")
		released := make([]<-chan error, locks)
		for i, g := range held {
			released[i] = g.ReleaseAsync(b.Context())
		}
		for _, c := range released {
			if err := <-c; err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric((memory()-empty)/locks, "B/released")
	}
}

package actor

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

func cycle(b *testing.B, a *Agent, name lockagent.Name, req Request) {
	g := <-a.Acquire(background, name, req)
	if g.Err() != nil {
		b.Fatal(g.Err())
	}
	if err := <-g.ReleaseAsync(background); err != nil {
		b.Fatal(err)
	}
}

// A lock that nobody else wants, each goroutine with its own.
func BenchmarkUncontended(b *testing.B) {
	for _, goroutines := range []int{1, 64} {
		b.Run(fmt.Sprint(goroutines, " goroutines"), func(b *testing.B) {
			a := start(b, Config{})
			b.ReportAllocs()
			b.SetParallelism(max(1, goroutines/runtime.GOMAXPROCS(0)))
			var id atomic.Int64
			if goroutines == 1 {
				for b.Loop() {
					cycle(b, a, "door", who("ann"))
				}
				return
			}
			b.RunParallel(func(p *testing.PB) {
				name := lockagent.Name(fmt.Sprint("door", id.Add(1)))
				for p.Next() {
					cycle(b, a, name, who("ann"))
				}
			})
		})
	}
}

// Readers who come while others read, and stay for an instant.
func BenchmarkReaderJoins(b *testing.B) {
	for _, goroutines := range []int{1, 64} {
		b.Run(fmt.Sprint(goroutines, " goroutines"), func(b *testing.B) {
			a := start(b, Config{})
			held := a.Lock(background, "door", reads("ann"))
			defer runtime.KeepAlive(held)
			b.ReportAllocs()
			b.SetParallelism(max(1, goroutines/runtime.GOMAXPROCS(0)))
			join := func() {
				if err := a.Lock(background, "door", reads("cid")).Release(background); err != nil {
					b.Error(err)
				}
			}
			if goroutines == 1 {
				for b.Loop() {
					join()
				}
				return
			}
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					join()
				}
			})
		})
	}
}

// One lock that many want: it is handed from one to the next.
func BenchmarkHandOff(b *testing.B) {
	a := start(b, Config{})
	b.ReportAllocs()
	b.SetParallelism(max(1, 64/runtime.GOMAXPROCS(0)))
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			cycle(b, a, "door", who("ann"))
		}
	})
}

// A lock that its owner has already.
func BenchmarkReentry(b *testing.B) {
	a := start(b, Config{})
	g := <-a.Acquire(background, "door", again("ann"))
	b.ReportAllocs()
	for b.Loop() {
		cycle(b, a, "door", again("ann"))
	}
	released(b, g)
}

// The way to the actor of a lock that has one.
func BenchmarkPin(b *testing.B) {
	a := start(b, Config{})
	g := <-a.Acquire(background, "door", who("ann"))
	b.ReportAllocs()
	for b.Loop() {
		e, err := a.registry.pinned("door", lockagent.PlainLock)
		if err != nil {
			b.Fatal(err)
		}
		e.unpin()
	}
	released(b, g)
}

// A lock that is used once: its actor is made, serves, and retires.
func BenchmarkColdName(b *testing.B) {
	a := start(b, Config{Store: forgetful{}, Idle: 1})
	names := make([]lockagent.Name, 1<<16)
	for i := range names {
		names[i] = lockagent.Name(fmt.Sprint("door", i))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		cycle(b, a, names[i%len(names)], who("ann"))
	}
}

// A message to an actor that does nothing with it.
func BenchmarkPost(b *testing.B) {
	var e entry
	e.mailbox.invoker = deaf{}
	b.ReportAllocs()
	for b.Loop() {
		e.mailbox.post(&e)
	}
}

type deaf struct{}

func (deaf) InvokeSystemMessage(any)  {}
func (deaf) InvokeUserMessage(any)    {}
func (deaf) EscalateFailure(_, _ any) {}

// What a deadline costs a grant of a lock that many want. What a context costs that the
// request is not told of is not the agent's doing.
func BenchmarkHandOffDeadline(b *testing.B) {
	for _, form := range []struct {
		name string
		ask  func(context.Context, *Agent) lockagent.Grant
	}{
		{"Acquire", func(ctx context.Context, a *Agent) lockagent.Grant { return <-a.Acquire(ctx, "door", who("ann")) }},
		{"Lock", func(ctx context.Context, a *Agent) lockagent.Grant { return a.Lock(ctx, "door", who("ann")) }},
	} {
		for _, told := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/told of it %v", form.name, told), func(b *testing.B) {
				a := start(b, Config{})
				b.ReportAllocs()
				b.SetParallelism(max(1, 64/runtime.GOMAXPROCS(0)))
				b.RunParallel(func(p *testing.PB) {
					for p.Next() {
						ctx, cancel := context.WithTimeout(background, time.Minute)
						if !told {
							ctx = background
						}
						if err := <-form.ask(ctx, a).ReleaseAsync(background); err != nil {
							b.Error(err)
						}
						cancel()
					}
				})
			})
		}
	}
}

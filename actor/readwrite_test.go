package actor

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/memstore"
)

func reads(owner string) Request {
	return Request{Owner: lockagent.Owner(owner), Kind: lockagent.ReadWriteLock, Mode: lockagent.Shared}
}

func writes(owner string) Request {
	return Request{Owner: lockagent.Owner(owner), Kind: lockagent.ReadWriteLock}
}

// Readers of one agent share a tenure: all but the first are granted the lock without the store.
func TestReadersOfOneAgentCostOneTenure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newTap(memstore.New())
		a := start(t, Config{Store: store})
		const readers = 64
		var held [readers]lockagent.Grant
		for i := range held {
			held[i] = granted(t, a.Acquire(background, "door", reads("ann")))
		}
		if n := store.count("acquire"); n != 1 {
			t.Errorf("%d attempts for %d readers", n, readers)
		}
		for i := range held {
			if held[i].Token() != held[0].Token()+lockagent.Token(i) {
				t.Errorf("reader %d has token %d after %d", i, held[i].Token(), held[0].Token())
			}
			released(t, held[i])
		}
		if n := store.count("release"); n != 1 {
			t.Errorf("%d releases for %d readers", n, readers)
		}
	})
}

// Readers have tokens of their own, whether they overlap or follow each other. A recorder changes nothing about that.
func TestTokensOfReadersOfOneAgent(t *testing.T) {
	for name, cfg := range map[string]Config{"without a recorder": {}, "with a recorder": {Recorder: &witness{}}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := start(t, cfg)
				var before lockagent.Grant
				for i := range 5 {
					g := a.Lock(background, "door", reads("ann"))
					if i > 0 {
						if g.Token() != before.Token()+1 {
							t.Errorf("token %d after %d", g.Token(), before.Token())
						}
						released(t, before)
					}
					before = g
				}
				released(t, before)
				closed(t, a)
			})
		})
	}
}

// The clock is first: a reader that releases after the deadline is told of the loss, even if no tick has come.
func TestAReaderReleasesTooLate(t *testing.T) {
	a := start(t, Config{})
	var held []lockagent.Grant
	for _, owner := range []string{"ann", "bob", "cid"} {
		held = append(held, a.Lock(background, "door", reads(owner)))
	}
	a.clock.slept.Store(int64(DefaultLease)) // the machine was suspended
	for _, g := range held {
		err := g.Release(background)
		lostBecause(t, err, lockagent.LostDeadline)
		if lost, _ := errors.AsType[*lockagent.LostError](err); lost.Owner != g.Owner() {
			t.Errorf("%s: %v", g.Owner(), err)
		}
	}
}

// The hold of a reader ends if nothing refers to its grant any more, and those beside it go on.
func TestADroppedGrantOfAReaderComesBack(t *testing.T) {
	ctx := waittest.Context(t)
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		a := start(t, Config{Logger: slog.New(d), Claim: time.Hour})
		ann, bob := a.Lock(background, "door", reads("ann")), a.Lock(background, "door", reads("bob"))
		writer := a.Acquire(background, "door", writes("zoe"))
		released(t, ann)
		if !lives(ctx, writer, true) {
			t.Error("a grant was taken back that is kept")
		}
		runtime.KeepAlive(bob) // and no longer
		if lives(ctx, writer, false) {
			t.Error("nobody has the grant, and the writer waits")
		}
		released(t, granted(t, writer))
		d.wrote(t, "WARN", "lock=door", "owner=bob", "advice=release")
	})
}

// Readers and writers, most of whom hold the lock for an instant only. A writer is alone, and none of them waits for ever.
func TestReadersAndWritersForAnInstant(t *testing.T) {
	store := memstore.New()
	for _, n := range []int{1, 2} {
		t.Run(fmt.Sprint(n, " agents"), func(t *testing.T) {
			var readers, writers atomic.Int32
			var all sync.WaitGroup
			for range n {
				a := start(t, Config{Store: store.Share()})
				for i := range 8 {
					all.Go(func() {
						for round := range 200 {
							owner := fmt.Sprint("reader", i, "/", round)
							inside, r := &readers, reads(owner)
							if i == 0 && round%20 == 0 {
								inside, r = &writers, writes(owner)
							}
							g := a.Lock(background, "door", r)
							if g.Err() != nil {
								t.Error(g.Err())
								return
							}
							inside.Add(1)
							if w := writers.Load(); w > 1 || w == 1 && readers.Load() > 0 {
								t.Errorf("%d writers beside %d readers", w, readers.Load())
							}
							if rand.IntN(4) == 0 {
								runtime.Gosched()
							}
							inside.Add(-1)
							if err := g.Release(background); err != nil {
								t.Error(err)
							}
						}
					})
				}
			}
			all.Wait()
		})
	}
}

// readOn has three goroutines of each agent read, so that there is always a reader who holds the lock. It returns what ends
// them.
func readOn(t *testing.T, all []*Agent, hold time.Duration) (end func()) {
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for _, a := range all {
		for reader := range 3 {
			readers.Go(func() {
				time.Sleep(time.Duration(reader) * hold / 3)
				for {
					g := <-a.Acquire(background, "door", reads("reader"))
					if g.Err() != nil {
						t.Error(g.Err())
						return
					}
					time.Sleep(hold)
					if err := <-g.ReleaseAsync(background); err != nil {
						t.Error(err)
					}
					select {
					case <-stop:
						return
					default:
					}
				}
			})
		}
	}
	return func() {
		close(stop)
		readers.Wait()
	}
}

// In each of several agents there is always a reader who holds the lock. Still every writer gets it,
// wherever it is.
func TestWritersAreNotStarved(t *testing.T) {
	const (
		agents = 4
		hold   = 30 * time.Millisecond
		rounds = 20
	)
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		var all []*Agent
		for range agents {
			all = append(all, start(t, Config{Store: store.Share()}))
		}
		end := readOn(t, all, hold)
		longest := time.Duration(0)
		for round := range rounds {
			time.Sleep(hold)
			begun := time.Now()
			g := granted(t, all[round%agents].Acquire(background, "door", writes("writer")))
			longest = max(longest, time.Since(begun))
			time.Sleep(hold)
			released(t, g)
		}
		end()
		if longest > time.Second { // virtual time: the holds under way, and the budget of a tenure
			t.Errorf("a writer waited for %v", longest)
		}
	})
}

// A program that cannot tell the agents that it waits finds the lock free within half a second, while they read on and on.
func TestOutsidersAreNotStarvedByReaders(t *testing.T) {
	const hold = 30 * time.Millisecond
	for _, agents := range []int{1, 2} {
		t.Run(fmt.Sprint(agents, " agents"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				var all []*Agent
				for range agents {
					all = append(all, start(t, Config{Store: store.Share()}))
				}
				end := readOn(t, all, hold)
				for range 20 {
					time.Sleep(time.Second)
					begun, free := time.Now(), make(chan struct{})
					var once sync.Once
					cancel := store.PlantOutsider("door", func() {
						store.Inspect(background, "door", lockagent.ReadWriteLock, func(seen lockagent.Inspection, err error) {
							if !seen.Held {
								once.Do(func() { close(free) })
							}
						})
					})
					await(t, "the outsider's turn", free)
					if waited := time.Since(begun); waited > time.Second/2 { // virtual time
						t.Errorf("waited for %v", waited)
					}
					cancel()
				}
				end()
			})
		})
	}
}

// A release of one mode leaves the grants of the other.
func TestReleaseOfAMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{Store: memstore.New()})
		write, read := writes("ann"), reads("ann")
		write.Session, read.Session = true, true
		w := granted(t, a.Acquire(background, "door", write))
		r := granted(t, a.Acquire(background, "door", read))
		if err := await(t, "release", a.ReleaseMode(background, "door", "ann", lockagent.Exclusive)); err != nil || w.Held() || !r.Held() {
			t.Errorf("%v, write %t, read %t", err, w.Held(), r.Held())
		}
		if err := await(t, "release", a.ReleaseMode(background, "door", "ann", lockagent.Exclusive)); !errors.Is(err, lockagent.ErrNotHeld) {
			t.Errorf("error %v, want ErrNotHeld", err)
		}
		if err := await(t, "release", a.ReleaseMode(background, "door", "ann", lockagent.Shared)); err != nil || r.Held() {
			t.Errorf("%v, read %t", err, r.Held())
		}
	})
}

package scenarios

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/waittest"
)

func TestE04ReadersOfANameWithBracesAndColons(t *testing.T) {
	const braces = "{test}:abc:key"
	onRedis(t, read, func(w *world) {
		both := w.agents(2)
		var wg sync.WaitGroup
		for i := range 10 {
			l := both[i%2].named(braces, fmt.Sprint("owner ", i))
			wg.Go(func() {
				for range 10 {
					l.guarded(w, func(held) {})
				}
			})
		}
		wg.Wait()
		waittest.Until(w, "the lock to be free", func() bool { return w.redis.Do("EXISTS", braces) == int64(0) })
	})
}

// The break of a handle ends all holds, whatever their mode.
func TestE15ABreakEndsHoldsOfEitherMode(t *testing.T) {
	inMemory(t, write, func(w *world) {
		both := w.agents(2)
		alice, bob, carol := both[0].sides("alice"), both[0].sides("bob"), both[1].sides("carol")
		for _, by := range []*channelapi.SessionLock{carol.read, carol.write} {
			for _, holders := range [][]*channelapi.SessionLock{{alice.write}, {alice.read, bob.read, carol.read}} {
				var grants []channelapi.Grant
				for _, l := range holders {
					grants = append(grants, grant(w, l))
				}
				broken, err := by.Break(w.Context(), "an operator")
				if err != nil || !broken {
					w.Errorf("Break: %t, %v", broken, err)
				}
				for _, g := range grants {
					synctest.Wait()
					wantLost(w, "the cause", g.Cause(), channelapi.LostBroken)
				}
				wantFree(w, "the lock is broken: somebody writes", bob.write, true)
			}
		}
	})
}

func TestE27ReadersAgainAndOtherNames(t *testing.T) {
	inMemory(t, read, func(w *world) {
		both := w.agents(2)
		alice, other := both[0].lock("alice"), both[1].named("another", "bob")
		first, second := alice.hold(w), alice.hold(w)
		wantFree(w, "somebody reads another name: this one is written", both[0].sides("dave").write, false)
		h := other.hold(w)
		must(w, second.release(w))
		wantFree(w, "the first one reads on: another writes", both[1].sides("carol").write, false)
		must(w, first.release(w))
		wantFree(w, "all have read: another writes", both[1].sides("carol").write, true)
		if !h.valid() {
			w.Errorf("the hold of another name is over: %v", h[0].Cause())
		}
		must(w, h.release(w))
	})
}

// countSides has owners read or write a number, at random. Readers see no change while they read.
func countSides(t *testing.T, agents, owners, loops int, work time.Duration) {
	inMemory(t, write, func(w *world) {
		all := w.agents(agents)
		var wg sync.WaitGroup
		n, writers, most, readers := 0, 0, 0, 0
		var mu sync.Mutex // guards what readers count
		for i := range owners {
			both := all[i%agents].sides(fmt.Sprint("owner ", i))
			r := rand.New(rand.NewPCG(28, uint64(i)))
			wg.Go(func() {
				for range loops {
					writes := r.IntN(2) == 0
					l := both.read
					if writes {
						l = both.write
					}
					g, err := l.Acquire(w.Context())
					if err != nil {
						w.Errorf("acquire: %v", err)
						return
					}
					before := n
					if !writes {
						mu.Lock()
						readers++
						most = max(most, readers)
						mu.Unlock()
					}
					w.sleep(work)
					if n != before {
						w.Errorf("somebody wrote while another one held the lock, writing %t", writes)
					}
					if writes {
						n = before + 1
						writers++
					} else {
						mu.Lock()
						readers--
						mu.Unlock()
					}
					if err := g.Release(w.Context()); err != nil {
						w.Errorf("release: %v", err)
					}
				}
			})
		}
		wg.Wait()
		if n != writers || n == 0 || n == owners*loops {
			w.Errorf("counted %d, and %d have written", n, writers)
		}
		if most < 2 && loops > 1 { // in one loop readers and writers may happen to take turns
			w.Error("no two have read together")
		}
	})
}

func TestE28OneAgentReadsAndWrites(t *testing.T) { countSides(t, 1, 15, 1, time.Millisecond) }

func TestE29ManyAgentsReadAndWriteOften(t *testing.T) {
	countSides(t, 16, 16, 100, 10*time.Millisecond)
}

func TestE30ManyAgentsReadAndWriteOnce(t *testing.T) { countSides(t, 100, 100, 1, time.Millisecond) }

// Agents die as readers, each of them twice in its hold. One reader lives on beyond their leases.
func TestE32AWriterAfterReadersWhoDied(t *testing.T) {
	inMemory(t, read, func(w *world) {
		for range 20 {
			store := w.memory.Share()
			l := w.agentOver(store).lock("dead")
			for range 3 {
				l.hold(w)
			}
			must(w, store.Close())
		}
		both := w.agents(2)
		reading := grant(w, both[0].sides("alice").read)
		writing := both[1].sides("bob").write.AcquireAsync(w.Context())
		w.sleep(channelapi.DefaultLease + 5*time.Second)
		if len(writing) > 0 {
			w.Fatal("the writer got in beside a reader")
		}
		must(w, reading.Release(w.Context()))
		released := time.Now()
		g := <-writing
		must(w, g.Err())
		if waited := time.Since(released); waited > scatter {
			w.Errorf("the writer waited %v after the last live reader", waited)
		}
		must(w, g.Release(w.Context()))
	})
}

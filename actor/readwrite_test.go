package actor

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

func reads(owner string) Request {
	return Request{Owner: lockagent.Owner(owner), Kind: lockagent.ReadWriteLock, Mode: lockagent.Shared}
}

func writes(owner string) Request {
	return Request{Owner: lockagent.Owner(owner), Kind: lockagent.ReadWriteLock}
}

// Readers have tokens of their own, whether they overlap or follow each other.
func TestTokensOfReadersOfOneAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{})
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
	})
}

// readOn has three goroutines of each agent read, so that there is always a reader who holds the lock. It returns what
// ends them.
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

// A program that cannot tell the agents that it waits finds the lock free within half a second, while they read on and
// on.
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
		if err := await(t, "release", a.ReleaseMode(background, "door", "ann", lockagent.Exclusive)); err != nil ||
			w.Held() || !r.Held() {
			t.Errorf("%v, write %t, read %t", err, w.Held(), r.Held())
		}
		if err := await(
			t, "release", a.ReleaseMode(background, "door", "ann", lockagent.Exclusive),
		); !errors.Is(err, lockagent.ErrNotHeld) {
			t.Errorf("error %v, want ErrNotHeld", err)
		}
		if err := await(t, "release", a.ReleaseMode(background, "door", "ann", lockagent.Shared)); err != nil || r.Held() {
			t.Errorf("%v, read %t", err, r.Held())
		}
	})
}

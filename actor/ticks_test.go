package actor

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// fixed asks for a lock with a lease of its own.
func fixed(lease time.Duration, over func()) Request {
	return Request{Owner: "ann", Lease: lease, Watch: whenOver(over)}
}

// endings tells how long after a test began holds ended.
type endings struct {
	began time.Time
	mu    sync.Mutex
	after map[int]time.Duration // guarded by mu
}

func newEndings() *endings {
	return &endings{began: time.Now(), after: make(map[int]time.Duration)}
}

func (e *endings) note(i int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.after[i] = time.Since(e.began)
}

func (e *endings) of(i int) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.after[i]
}

// Every lock gets its tick when it is due, whatever ticks are set, moved and taken out
// meanwhile.
func TestTicksComeWhenTheyAreDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const locks = 500
		a := start(t, Config{Store: forgetful{}, Idle: 3 * time.Second})
		r := rand.New(rand.NewPCG(1, 2))
		ends := newEndings()
		leases := make([]time.Duration, locks)
		grants := make([]lockagent.Grant, locks)
		name := func(i int) lockagent.Name { return lockagent.Name(fmt.Sprint("door", i)) }
		for i := range locks {
			leases[i] = time.Duration(1+r.IntN(5000)) * time.Millisecond
			if i%5 == 0 { // used before, its next tick is moved forward
				released(t, granted(t, a.Acquire(background, name(i), fixed(time.Minute, func() {}))))
			}
			grants[i] = granted(t, a.Acquire(background, name(i), fixed(leases[i], func() { ends.note(i) })))
		}
		for i := 0; i < locks; i += 3 {
			released(t, grants[i])
		}
		for range 120 {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		for i := range locks {
			want := lockstate.Trust(leases[i])
			if i%3 == 0 {
				want = 0
			}
			if got := ends.of(i); got != want {
				t.Errorf("lock %d ended after %v, want %v", i, got, want)
			}
		}
		if a.entries() != 0 {
			t.Errorf("%d locks are left", a.entries())
		}
	})
}

// A callback that does not return, or panics, costs other locks no time.
func TestTicksGoOnWithoutACallback(t *testing.T) {
	for what, stray := range map[string]func(held <-chan struct{}){
		"blocks": func(held <-chan struct{}) { <-held },
		"panics": func(<-chan struct{}) { panic("a callback") },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const locks, strays = 200, 20
				a := start(t, Config{Store: forgetful{}, Logger: quiet})
				held := make(chan struct{})
				ends := newEndings()
				for i := range locks {
					granted(t, a.Acquire(background, lockagent.Name(fmt.Sprint("door", i)), fixed(time.Second, func() {
						ends.note(i)
						if i < strays {
							stray(held)
						}
					})))
				}
				due := lockstate.Trust(time.Second)
				time.Sleep(due)
				synctest.Wait()
				for i := range locks {
					if got := ends.of(i); got != due {
						t.Errorf("lock %d: ended after %v, want %v", i, got, due)
					}
				}
				close(held)
				// Those that were held up go on as if nothing had been.
				for i := range locks {
					released(t, granted(t, a.Acquire(background, lockagent.Name(fmt.Sprint("door", i)), who("bob"))))
				}
			})
		})
	}
}

// Timers stand still while the machine is suspended, but the agent's clock does not.
func TestTicksAfterASuspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{Store: forgetful{}})
		ends := newEndings()
		end := func(i int, lease time.Duration) {
			granted(t, a.Acquire(background, lockagent.Name(fmt.Sprint("door", i)), fixed(lease, func() { ends.note(i) })))
		}
		end(0, time.Hour)
		time.Sleep(time.Second)
		a.clock.slept.Store(int64(2 * time.Hour))
		end(1, 2*time.Second)
		time.Sleep(longestSleep)
		synctest.Wait()
		if got := ends.of(0); got != longestSleep {
			t.Errorf("the lease that ran out in the suspension ended after %v, want %v", got, longestSleep)
		}
		if got, want := ends.of(1), time.Second+lockstate.Trust(2*time.Second); got != want {
			t.Errorf("the lease after it ended after %v, want %v", got, want)
		}
	})
}

// No timer is left of a lock that has gone, or of an agent that is closed.
func TestTicksLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{Store: forgetful{}})
		var made []*lock
		newLock := a.registry.make
		a.registry.make = func(e *entry) *lock {
			made = append(made, newLock(e))
			return made[len(made)-1]
		}
		g := granted(t, a.Acquire(background, "gate", fixed(24*time.Hour, func() {})))
		released(t, granted(t, a.Acquire(background, "door", who("ann"))))
		left := func(l *lock) {
			if l.timer.Stop() {
				t.Errorf("the timer of %s is still set", l.entry.name)
			}
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		left(made[1])
		closed(t, a)
		left(made[0])
		lostBecause(t, g.Cause(), lockagent.LostClosed)
	})
}

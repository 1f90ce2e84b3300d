package actor

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// check looks at the heap and the timer.
func (t *ticks) check(tb testing.TB) {
	tb.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, x := range t.due {
		if x.lock.tickAt != i+1 {
			tb.Fatalf("the lock at %d has its place at %d", i, x.lock.tickAt-1)
		}
		if above := t.due[max(i-1, 0)/ways]; x.at < above.at {
			tb.Fatalf("%v at %d is above %v", above.at, i, x.at)
		}
	}
	if len(t.due) > 0 && (t.fires.IsZero() || time.Until(t.fires) > max(0, t.due[0].at.Sub(t.clock.now()))) {
		tb.Fatalf("the timer fires at %v, the first tick is due in %v", t.fires, t.due[0].at.Sub(t.clock.now()))
	}
}

// size is how many ticks there are, and for how many there is room.
func (t *ticks) size() (n, room int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.due), cap(t.due)
}

// fixed asks for a lock with a lease of its own.
func fixed(lease time.Duration, over func()) Request {
	return Request{Owner: "ann", Lease: lease, Over: over}
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
				released(t, granted(t, a.Acquire(background, name(i), fixed(time.Minute, nil))))
			}
			grants[i] = granted(t, a.Acquire(background, name(i), fixed(leases[i], func() { ends.note(i) })))
			a.ticks.check(t)
		}
		for i := 0; i < locks; i += 3 {
			released(t, grants[i])
			a.ticks.check(t)
		}
		for range 120 {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			a.ticks.check(t)
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
		if n, _ := a.ticks.size(); n != 0 || a.entries() != 0 {
			t.Errorf("%d ticks of %d locks are left", n, a.entries())
		}
	})
}

// A callback that does not return, or panics, costs other locks little time.
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
				time.Sleep(due + strays*helpAfter)
				synctest.Wait()
				a.ticks.check(t)
				for i := range locks {
					if got := ends.of(i); got < due {
						t.Errorf("lock %d: ended after %v, want %v or little later", i, got, due)
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

// What is due at the same time costs one goroutine.
func TestTicksShareAGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const locks = 200
		a := start(t, Config{Store: forgetful{}})
		before := runtime.NumGoroutine()
		most, help := 0, time.Hour
		for i := range locks {
			granted(t, a.Acquire(background, lockagent.Name(fmt.Sprint("door", i)), fixed(time.Second, func() {
				most = max(most, runtime.NumGoroutine()-before) // one after the other
				a.ticks.mu.Lock()
				defer a.ticks.mu.Unlock()
				if len(a.ticks.due) > 0 {
					help = min(help, time.Until(a.ticks.fires))
				}
			})))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if most > 1 {
			t.Errorf("%d goroutines for %d ticks", most, locks)
		}
		if help != helpAfter {
			t.Errorf("help came after %v, want %v", help, helpAfter)
		}
	})
}

// The timer stands still while the machine is suspended, but the agent's clock does not.
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
		end(1, 2*time.Second) // its tick is not to wait for the timer of the hour
		time.Sleep(2 * time.Second)
		synctest.Wait()
		a.ticks.check(t)
		if got, want := ends.of(0), time.Second; got != want {
			t.Errorf("the lease that ran out in the suspension ended after %v, want %v", got, want)
		}
		if got, want := ends.of(1), time.Second+lockstate.Trust(2*time.Second); got != want {
			t.Errorf("the lease after it ended after %v, want %v", got, want)
		}
	})
}

// Nothing is left of the ticks of an agent that is closed, and little of many.
func TestTicksLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const locks = 1000
		a := start(t, Config{Store: forgetful{}})
		g := granted(t, a.Acquire(background, "gate", fixed(24*time.Hour, nil)))
		for i := range locks {
			released(t, granted(t, a.Acquire(background, lockagent.Name(fmt.Sprint("door", i)), who("ann"))))
		}
		if n, _ := a.ticks.size(); n != locks+1 {
			t.Errorf("%d ticks, want %d", n, locks+1)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n, room := a.ticks.size(); n != 1 || room > fewTicks {
			t.Errorf("%d ticks in the room for %d", n, room)
		}
		closed(t, a)
		if a.ticks.timer.Stop() {
			t.Error("the timer is still set")
		}
		if n, _ := a.ticks.size(); n != 0 {
			t.Errorf("%d ticks are left", n)
		}
		lostBecause(t, g.Cause(), lockagent.LostClosed)
	})
}

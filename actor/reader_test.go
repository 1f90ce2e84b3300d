package actor

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// A reader that releases too late is told of a loss, even if the answer to a renewal then lets the others go on. It has left
// the gate all the same: the lock is free when the others have left, too.
func TestAReaderReleasesBeforeALateRenewal(t *testing.T) {
	for _, last := range []bool{false, true} {
		for name, release := range map[string]func(lockagent.Grant) error{
			"Release":      func(g lockagent.Grant) error { return g.Release(background) },
			"ReleaseAsync": func(g lockagent.Grant) error { return <-g.ReleaseAsync(background) },
		} {
			t.Run(fmt.Sprintf("%s, the last %v", name, last), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := newTap(memstore.New())
					a := start(t, Config{Store: store})
					held := reading(t, a, "ann", "bob", "cid")
					var answer func()
					store.on("renew", func(o *op) { answer = o.run })
					time.Sleep(DefaultLease / 3)
					synctest.Wait()
					store.handle(nil)
					if last {
						unlocked(t, held[2])
					}
					a.clock.slept.Store(int64(DefaultLease * 6 / 10)) // the tick comes too late
					lostBecause(t, release(held[1]), lockagent.LostDeadline)
					lostBecause(t, held[1].Cause(), lockagent.LostDeadline)
					lostBecause(t, release(held[1]), lockagent.LostDeadline)
					answer()
					if !last {
						for _, g := range []lockagent.Grant{held[0], held[2]} {
							if !g.Held() {
								t.Errorf("%s has lost the lock: %v", g.Owner(), g.Cause())
							}
							unlocked(t, g)
						}
					}
					released(t, granted(t, a.Acquire(background, "door", writes("zoe"))))
				})
			})
		}
	}
}

// A reader is about to release its hold, and the hold is lost. Whoever waits for its end learns of that before another gets
// the lock, whatever the reader is doing.
func TestAReaderReleasesDuringALoss(t *testing.T) {
	for _, ends := range []bool{false, true} {
		t.Run(fmt.Sprint("the function ends its goroutine ", ends), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := start(t, Config{Logger: quiet})
				bob := reading(t, a, "ann", "bob", "cid")[1]
				told, goOn := 0, make(chan struct{})
				for range 3 {
					a.registry.gate("door", lockagent.ReadWriteLock).first.notify(&onEnd{call: func(cause error) {
						if told++; !errors.Is(cause, lockagent.ErrReleased) {
							t.Errorf("told of %v", cause)
						}
						if told == 1 {
							<-goOn
							if ends {
								runtime.Goexit()
							}
						}
					}})
				}
				left := make(chan struct{})
				go func() {
					defer close(left)
					unlocked(t, bob)
				}()
				synctest.Wait()
				writer := a.Acquire(background, "door", writes("zoe"))
				<-a.Break("door", lockagent.ReadWriteLock, "op")
				released(t, granted(t, writer))
				if told != 3 {
					t.Errorf("%d of 3 were told", told)
				}
				close(goOn)
				<-left
				if told != 3 {
					t.Errorf("3 were told %d times", told)
				}
			})
		})
	}
}

// A reader who is on its way through a gate when the lock is lost does not read.
func TestAReaderPassesDuringALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{})
		reading(t, a, "ann", "bob")
		g := a.registry.gate("door", lockagent.ReadWriteLock)
		if !g.count() {
			t.Fatal("the gate is shut")
		}
		<-a.Break("door", lockagent.ReadWriteLock, "op")
		if h, ok := g.add("cid"); ok {
			t.Errorf("after the loss %v reads", h.owner)
		}
		if g.count() {
			t.Error("the gate is open")
		}
		released(t, granted(t, a.Acquire(background, "door", writes("zoe"))))
	})
}

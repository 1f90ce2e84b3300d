package scenarios

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent/channelapi"
)

// scatter is how much later than the end of a lease a waiter tries again at most.
const scatter = 101 * time.Millisecond

func shortWaitsOfMany(w *world) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, a := range w.agents(2) {
		for _, n := range []string{"a", "b"} {
			l := a.named(n, n, channelapi.Wait(100*time.Millisecond))
			wg.Go(func() {
				for range 2 {
					l.guarded(w, func(held) {})
				}
			})
		}
	}
}

func cancelledRequestIsNotRenewed(w *world) {
	store := w.memory.Share()
	l, other := w.agentOver(store).lock("alice", channelapi.Try()), w.agent().lock("bob")
	for _, hangs := range []bool{false, true} {
		resume := func() {}
		if hangs {
			resume = store.Hang()
		}
		ctx, cancel := context.WithCancel(w.Context())
		l.abandon(ctx)
		w.sleep(5 * time.Millisecond)
		other.wantLocked(w, !hangs)
		cancel()
		synctest.Wait()
		other.wantLocked(w, false)
		w.sleep(time.Second)
		resume() // the call that was under way takes effect now
		synctest.Wait()
		other.wantLocked(w, false)
		w.sleep(45 * time.Second)
		other.wantLocked(w, false)
	}
}

func tryFails(w *world) {
	both := w.agents(2)
	h := both[0].lock("alice").hold(w)
	for _, a := range both {
		_, err := a.lock("bob", channelapi.Try()).acquire(w.Context())
		wantErr(w, "bob's try", err, channelapi.ErrHeld)
	}
	must(w, h.release(w))
}

func waitInVain(w *world) {
	both := w.agents(2)
	h := both[0].lock("alice").hold(w)
	for _, a := range both {
		start := time.Now()
		_, err := a.lock("bob", channelapi.Wait(3*time.Second)).acquire(w.Context())
		wantErr(w, "bob's wait", err, channelapi.ErrTimeout)
		if waited := time.Since(start); waited != 3*time.Second {
			w.Errorf("waited %v, want 3s", waited)
		}
	}
	must(w, h.release(w))
}

func nothingInterruptsTheWait(w *world) {
	a := w.agent()
	h := a.lock("alice", channelapi.Lease(10*time.Minute)).hold(w)
	ctx, interrupt := context.WithCancel(w.Context())
	bobs := a.lock("bob").start(context.WithoutCancel(ctx))
	interrupt()
	w.sleep(2 * time.Second)
	pending(w, bobs)
	must(w, h.release(w))
	got := <-bobs
	must(w, got.err)
	must(w, got.release(w))
}

func theWaiterGetsIt(w *world) {
	both := w.agents(2)
	holder, h := 0, both[0].lock("owner 0").hold(w)
	for i, a := range []*agent{both[1], both[0], both[0]} { // by a message, again, and by hand
		next := a.lock([]string{"bob", "carol", "dave"}[i]).start(w.Context())
		w.sleep(3 * time.Second)
		pending(w, next)
		released := time.Now()
		must(w, h.release(w))
		got := <-next
		must(w, got.err)
		if waited := time.Since(released); waited > w.kind.late {
			w.Errorf("owner %d got it %v after the release of owner %d", i+1, waited, holder)
		}
		got.wantAfter(w, h)
		holder, h = i+1, got.held
	}
	must(w, h.release(w))
	both[1].lock("erin").wantLocked(w, false)
}

func waitForTheEndOfALease(w *world) {
	both := w.agents(2)
	start := time.Now()
	h := both[0].lock("alice", channelapi.Lease(2*time.Second)).hold(w)
	next, err := both[1].lock("bob", channelapi.Wait(3*time.Second)).acquire(w.Context())
	must(w, err)
	if waited := time.Since(start); waited < told(2*time.Second) {
		w.Errorf("granted after %v, while alice held it", waited)
	}
	h.wantLostBy(w, channelapi.LostExpired)
	next.wantAfter(w, h)
	must(w, next.release(w))
}

// pending fails if something is in the channel already.
func pending(w *world, c <-chan outcome) {
	w.Helper()
	synctest.Wait()
	select {
	case got := <-c:
		w.Fatalf("%v, %v came; want nothing yet", got.held, got.err)
	default:
	}
}

// The holder of a lock without re-entry asks again, through its handle and through another.
func TestM02M03HolderAsksAgain(t *testing.T) {
	for _, k := range []kind{nonreentrant, nonreentrantFair} {
		t.Run(k.name, func(t *testing.T) {
			inMemory(t, k, func(w *world) {
				a := w.agent()
				h := a.lock("alice").hold(w)
				for range 2 { // each call makes another handle
					for _, opts := range [][]channelapi.Option{nil, {channelapi.Try()}, {channelapi.Wait(time.Second)}} {
						_, err := a.lock("alice", opts...).acquire(w.Context())
						wantErr(w, "asked again", err, channelapi.ErrReentry)
					}
				}
				must(w, h.release(w))
				a.lock("bob").wantLocked(w, false)
			})
		})
	}
}

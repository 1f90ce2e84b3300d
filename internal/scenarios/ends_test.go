package scenarios

import (
	"time"

	"github.com/lockagent/lockagent/channelapi"
)

// How a hold ends, or goes on.

func breakIt(w *world) {
	both := w.agents(2)
	l := both[0].lock("alice")
	h := l.hold(w)
	for _, part := range l {
		held, err := part.Break(w.Context(), "an operator")
		if err != nil || !held {
			w.Errorf("Break: %t, %v", held, err)
		}
	}
	h.wantLostBy(w, channelapi.LostBroken)
	l.wantLocked(w, false)
	both[0].lock("bob").wantLocked(w, false)
	both[1].lock("carol").wantLocked(w, false)
}

func strangerCannotRelease(w *world) {
	a := w.agent()
	alice, bob := a.lock("alice"), a.lock("bob")
	h := bob.hold(w)
	wantErr(w, "alice's release", alice.release(w), channelapi.ErrNotOwner)
	wantErr(w, "carol's release", w.agent().lock("carol").release(w), channelapi.ErrNotHeld)
	w.sleep(time.Second)
	if !h.valid() {
		w.Errorf("bob lost the lock: %v", h[0].Cause())
	}
	must(w, h.release(w))
}

// told is when the holder of a fixed lease is told of its end, and the agent gives the lock back.
func told(lease time.Duration) time.Duration { return lease - lease/10 }

func leaseRunsOut(w *world) {
	both := w.agents(2)
	const lease = 2 * time.Second
	start := time.Now()
	h := both[0].lock("alice", channelapi.Lease(lease)).hold(w)
	next := both[1].lock("bob").hold(w)
	if waited := time.Since(start); waited < told(lease) || waited > lease+scatter {
		w.Errorf("granted after %v, want just after alice was told of the end of her lease of %v", waited, lease)
	}
	for _, g := range h {
		wantLost(w, "alice's late release", g.Release(w.Context()), channelapi.LostExpired)
	}
	next.wantAfter(w, h)
	if !next.valid() {
		w.Errorf("the late release ended bob's hold: %v", next[0].Cause())
	}
	must(w, next.release(w))
}

func deadHolder(w *world) {
	mortal := w.memory.Share()
	locks, other := w.agentOver(mortal), w.agent()
	h := locks.lock("alice").hold(w)
	bobs := other.lock("bob").start(w.Context())
	w.sleep(15 * time.Second)
	if !h.valid() {
		w.Fatalf("lost while the holder lived: %v", h[0].Cause())
	}
	died := time.Now()
	must(w, mortal.Close()) // no call of the holder arrives any more
	next := <-bobs
	must(w, next.err)
	if waited := time.Since(died); waited > channelapi.DefaultLease+scatter {
		w.Errorf("free after %v, want after at most a lease", waited)
	}
	// The holder was not dead after all, but learns that its hold is over.
	h.wantLostBy(w, channelapi.LostDeadline)
	next.wantAfter(w, h)
	must(w, next.release(w))
}

func lossSpoilsNoLaterRenewal(w *world) {
	l := w.agentWith(channelapi.Config{Store: w.open(), Lease: time.Second}).lock("alice")
	before := l.hold(w)
	w.memory.Reset() // as a server that is restarted empty
	w.sleep(2 * time.Second)
	for _, g := range before {
		wantLost(w, "the release", g.Release(w.Context()), channelapi.LostDenied)
	}
	for range 2 {
		later := l.hold(w)
		later.wantAfter(w, before)
		w.sleep(2 * time.Second)
		if !later.valid() {
			w.Errorf("not renewed: %v", later[0].Cause())
		}
		must(w, later.release(w))
		w.sleep(2 * time.Second)
		l.wantLocked(w, false)
	}
}

func keptLeaseIsRenewed(w *world) {
	l := w.agent().lock("alice")
	h := l.hold(w)
	w.sleep(17 * time.Second)
	for _, part := range l {
		s, err := part.Status(w.Context())
		must(w, err)
		if s.Remaining <= channelapi.DefaultLease-17*time.Second {
			w.Errorf("after 17s, %v remain of the lease of %q", s.Remaining, part.Name())
		}
	}
	must(w, h.release(w))
}

func renewalEndsWithTheHold(w *world) { renewalEnds(w, 1) }

func renewalEndsWithTheLastGrant(w *world) { renewalEnds(w, 2) }

func renewalEnds(w *world, grants int) {
	store := &counting{Store: w.open()}
	l := w.agentOver(store).lock("alice")
	for range grants {
		l.hold(w)
	}
	for n := grants; n > 0; n-- {
		before := store.renewals.Load()
		w.sleep(45 * time.Second)
		if store.renewals.Load() == before {
			w.Errorf("nobody renews what is held by %d grants", n)
		}
		must(w, l.release(w))
	}
	before := store.renewals.Load()
	w.sleep(time.Hour)
	if n := store.renewals.Load() - before; n > 0 {
		w.Errorf("%d renewals of what nobody holds", n)
	}
}

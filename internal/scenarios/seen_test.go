package scenarios

import (
	"time"

	"github.com/lockagent/lockagent/channelapi"
)

// What a session and others see of a lock.

func holdCount(w *world) {
	l := w.agent().lock("alice")
	count := func(want int) {
		w.Helper()
		if s := l.status(w); s.HoldCount != want || s.Locked != (want > 0) {
			w.Errorf("hold count %d, locked: %t; want %d", s.HoldCount, s.Locked, want)
		}
	}
	count(0)
	l.hold(w)
	count(1)
	must(w, l.release(w))
	count(0)
	l.hold(w)
	l.hold(w)
	count(2)
	must(w, l.release(w))
	count(1)
	must(w, l.release(w))
	count(0)
}

func noOtherOwnerHoldsIt(w *world) {
	a := w.agent()
	alice, bob := a.lock("alice"), a.lock("bob")
	h := alice.hold(w)
	if bob.status(w).HeldBy("bob") {
		w.Error("bob holds what alice locked")
	}
	must(w, h.release(w))
	if a.lock("carol").status(w).HeldBy("carol") {
		w.Error("carol holds what nobody locked")
	}
}

func theOwnerHoldsIt(w *world) {
	a := w.agent()
	l := a.lock("alice", channelapi.Lease(10*time.Second))
	heldBy := func(want bool) {
		w.Helper()
		if l.status(w).HeldBy("alice") != want {
			w.Errorf("held by alice: %t, want %t", !want, want)
		}
		for _, h := range l {
			if a.sessions["alice"].Holds(string(h.Name())) != want {
				w.Errorf("the session holds it: %t, want %t", !want, want)
			}
		}
	}
	heldBy(false)
	h := l.hold(w)
	heldBy(true)
	must(w, h.release(w))
	heldBy(false)
}

func othersSeeIt(w *world) {
	both := w.agents(2)
	h := both[0].lock("alice").hold(w)
	for _, a := range both {
		a.lock("bob").wantLocked(w, true)
	}
	must(w, h.release(w))
	for _, a := range both {
		a.lock("carol").wantLocked(w, false)
	}
}

func lockedWhileHeld(w *world) { times(w, 1) }

func threeTimes(w *world) { times(w, 3) }

func times(w *world, n int) {
	l := w.agent().lock("alice")
	for range n {
		l.wantLocked(w, false)
		h := l.hold(w)
		l.wantLocked(w, true)
		must(w, h.release(w))
	}
	l.wantLocked(w, false)
}

func twiceInARow(w *world) {
	l := w.agent().lock("alice")
	must(w, l.hold(w).release(w))
	must(w, l.hold(w).release(w))
}

func reentry(w *world) {
	both := w.agents(2)
	alice := both[0].lock("alice")
	first, second := alice.hold(w), alice.hold(w)
	must(w, second.release(w))
	for _, a := range both {
		_, err := a.lock("bob", channelapi.Try()).acquire(w.Context())
		wantErr(w, "bob's try", err, channelapi.ErrHeld)
	}
	if !first.valid() {
		w.Errorf("the first grant is over: %v", first[0].Cause())
	}
	must(w, first.release(w))
}

func remainingTime(w *world) {
	both := w.agents(2) // one that has just had the lock begins with a short lease
	kept, fixed := both[0].lock("alice"), both[1].lock("bob", channelapi.Lease(time.Hour))
	remains := func(want time.Duration) {
		w.Helper()
		if s := kept.status(w); s.Remaining != want {
			w.Errorf("%v remain, want %v", s.Remaining, want)
		}
	}
	h := fixed.hold(w)
	remains(time.Hour)
	must(w, h.release(w))
	remains(0)
	h = kept.hold(w)
	remains(channelapi.DefaultLease)
	must(w, h.release(w))
}

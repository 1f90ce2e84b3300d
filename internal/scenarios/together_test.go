package scenarios

import (
	"testing"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redistest"
)

func TestC07BothLocksAreLocked(t *testing.T) {
	inMemory(t, all, func(w *world) {
		a := w.agent()
		grants := <-channelapi.AllAsync(w.Context(), a.lock("alice").any()...)
		must(w, grants.Err())
		for _, h := range a.lock("bob") {
			s, err := h.Status(w.Context())
			must(w, err)
			if !s.Locked {
				w.Errorf("%q is not locked", h.Name())
			}
		}
	})
}

func TestC08OwnersWithNamesTakeTurns(t *testing.T) {
	inMemory(t, plain, func(w *world) {
		a := w.agent()
		one, two := a.lock("1"), a.lock("2")
		holder := func(want channelapi.Owner) {
			w.Helper()
			for _, owner := range []channelapi.Owner{"1", "2"} {
				if got := one.status(w).HeldBy(owner); got != (owner == want) {
					w.Errorf("held by %q: %t", owner, got)
				}
			}
		}
		one.hold(w)
		holder("1")
		next := two.start(w.Context())
		pending(w, next)
		must(w, one.release(w))
		must(w, (<-next).err)
		holder("2")
		must(w, two.release(w))
		holder("")
	})
}

func TestH04LocksOfThreeServers(t *testing.T) {
	t.Parallel()
	w := &world{T: t, kind: plain}
	var alices, bobs lock
	for range 3 {
		url := redistest.Start(t).URL()
		const name = "orders"
		alices = append(alices, w.agentOver(openRedis(t, url)).named(name, "alice")...)
		bobs = append(bobs, w.agentOver(openRedis(t, url)).named(name, "bob", channelapi.Try())...)
	}
	h := alices.hold(t)
	for range 2 {
		_, err := bobs.acquire(t.Context())
		wantErr(t, "bob's try", err, channelapi.ErrHeld)
	}
	must(t, h.release(t))
	must(t, bobs.hold(t).release(t))
}

func TestH05TheKeysOfLocksThatAreHeldTogether(t *testing.T) {
	onRedis(t, all, func(w *world) {
		a := w.agent()
		l := a.lock("alice")
		h := l.hold(w)
		for _, part := range l {
			fields := w.redis.Do("HGETALL", string(part.Name())).([]any)
			s, err := part.Status(w.Context())
			must(w, err)
			if len(fields) != 2 || fields[0] != s.Holder || fields[1] != "2" {
				w.Errorf("%q has the fields %v, want %q with the 2 of a plain lock", part.Name(), fields, s.Holder)
			}
		}
		must(w, h.release(w))
		for _, part := range l {
			if w.redis.Do("EXISTS", string(part.Name())) != int64(0) {
				w.Errorf("%q is still there", part.Name())
			}
		}
	})
}

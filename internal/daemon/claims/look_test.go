package claims

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/memstore"
)

func TestLocks(t *testing.T) {
	in(t, func(t *testing.T, b *Book, _ *memstore.Store) {
		var streams []*Stream
		for _, name := range []lockagent.Name{"c", "a", "b", "b", "b"} {
			streams = append(
				streams, ask(t, b, Request{Client: ann, Name: name, Command: "make", Labels: map[string]string{"ticket": "7"}}),
			)
		}
		read[Granted](t, streams[0])
		all := func(lockagent.Name) bool { return true }
		found, more, err := b.Locks(background, all, "", 2)
		if err != nil || len(found) != 2 || !more || found[0].Name != "a" || found[1].Name != "b" || found[1].Held != 1 ||
			found[1].Waiting != 2 {
			t.Fatalf("%v, %+v", more, found)
		}
		if w := found[1].Waiters; len(w) != 2 || w[0].ID != streams[3].claim.id || w[1].ID != streams[4].claim.id ||
			w[0].State != Waiting {
			t.Errorf("%+v", w)
		}
		found, more, _ = b.Locks(background, all, "b", 2)
		if len(found) != 1 || more {
			t.Fatalf("%v, %+v", more, found)
		}
		h := found[0].Holders[0]
		if h.State != Held || h.Client != ann || h.Token == 0 || h.Left <= 0 || h.Command != "make" ||
			h.Labels["ticket"] != "7" || h.Detached {
			t.Errorf("%+v", h)
		}
		found, _, _ = b.Locks(background, func(n lockagent.Name) bool { return n == "a" }, "", 10)
		if len(found) != 1 {
			t.Errorf("%+v", found)
		}
		if l := b.Lock("d"); l.Name != "d" || l.Held+l.Waiting != 0 {
			t.Errorf("%+v", l)
		}
		for range MaxTold {
			streams = append(streams, ask(t, b, Request{Client: ann, Name: "b"}))
		}
		if l := b.Lock("b"); len(l.Waiters) != MaxTold || l.Waiting != MaxTold+2 {
			t.Errorf("%d of %d waiters", len(l.Waiters), l.Waiting)
		}
		for _, s := range streams {
			s.Close()
		}
		counts(t, b, 0, 0)
	})
}

func TestWatch(t *testing.T) {
	in(t, func(t *testing.T, b *Book, store *memstore.Store) {
		w := b.Watch(func(n lockagent.Name) bool { return strings.HasPrefix(string(n), "d") })
		tells := func(want ...lockagent.Name) {
			t.Helper()
			names, lost, err := w.Next(background)
			if err != nil || lost || !slices.Equal(names, want) {
				t.Errorf("%q, %v, %v, want %q", names, lost, err, want)
			}
		}
		one, two := ask(t, b, Request{Client: ann, Name: "door"}), ask(t, b, Request{Client: ann, Name: "desk"})
		other := ask(t, b, Request{Client: ann, Name: "safe"})
		tells("desk", "door")
		store.SetOutage(lockagent.ErrStoreUnavailable)
		pass(actor.DefaultLease / 2)
		tells("desk", "door")
		store.SetOutage(nil)
		pass(10 * time.Second)
		tells("desk", "door")
		for _, s := range []*Stream{one, two, other} {
			s.Close()
		}
		synctest.Wait()
		tells("desk", "door")
		ctx, cancel := context.WithCancel(background)
		cancel()
		if _, _, err := w.Next(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		b.mu.Lock()
		for i := range maxChanges + 10 {
			b.changed(lockagent.Name("d" + string(rune(i+1000))))
		}
		b.mu.Unlock()
		if names, lost, _ := w.Next(background); !lost || len(names) > maxChanges {
			t.Errorf("%d names, %v", len(names), lost)
		}
		w.Stop()
		free(t, b, "door")
		if len(b.watches) != 0 {
			t.Error("the watch goes on")
		}
	})
}

// A pattern may be costly. The claims do not wait for it, and may end meanwhile.
func TestLocksMatchWithoutTheClaims(t *testing.T) {
	in(t, func(t *testing.T, b *Book, _ *memstore.Store) {
		streams := make(map[lockagent.Name]*Stream)
		for _, name := range []lockagent.Name{"a", "b", "c"} {
			streams[name] = ask(t, b, Request{Client: ann, Name: name})
			read[Granted](t, streams[name])
		}
		found, more, _ := b.Locks(background, func(name lockagent.Name) bool {
			if !b.mu.TryLock() {
				t.Error("the claims wait for the pattern")
				return true
			}
			b.mu.Unlock()
			if name == "b" {
				streams[name].Close()
				synctest.Wait()
			}
			return true
		}, "", 2)
		if len(found) != 2 || found[0].Name != "a" || found[1].Name != "c" || more {
			t.Errorf("%+v, %v", found, more)
		}
		for _, s := range streams {
			s.Close()
		}
		free(t, b, "a")
	})
}

// A pattern may be costly. The claims do not wait for it.
func TestWatchesMatchWithoutTheClaims(t *testing.T) {
	in(t, func(t *testing.T, b *Book, _ *memstore.Store) {
		looked := 0
		w := b.Watch(func(name lockagent.Name) bool {
			looked++
			return name == "door"
		})
		defer w.Stop()
		b.mu.Lock()
		b.changed("desk")
		b.changed("door")
		b.mu.Unlock()
		if looked != 0 {
			t.Errorf("%d names were matched while the claims waited", looked)
		}
		if names, lost, err := w.Next(background); len(names) != 1 || names[0] != "door" || lost || err != nil {
			t.Errorf("%v, %v, %v", names, lost, err)
		}
	})
}

// Whoever has asked may go away, and then nobody needs the rest.
func TestALookEndsWithWhoAsked(t *testing.T) {
	in(t, func(t *testing.T, b *Book, _ *memstore.Store) {
		for _, name := range []lockagent.Name{"a", "b", "c"} {
			s := ask(t, b, Request{Client: ann, Name: name})
			defer s.Close()
		}
		gone := errors.New("gone")
		looked, leave := 0, func() {}
		match := func(lockagent.Name) bool {
			looked++
			leave()
			return true
		}
		w := b.Watch(match)
		defer w.Stop()
		b.mu.Lock()
		b.changed("a")
		b.changed("b")
		b.mu.Unlock()
		for what, look := range map[string]func(context.Context) error{
			"a list":  func(ctx context.Context) error { _, _, err := b.Locks(ctx, match, "", 10); return err },
			"a watch": func(ctx context.Context) error { _, _, err := w.Next(ctx); return err },
		} {
			ctx, cancel := context.WithCancelCause(background)
			looked, leave = 0, func() { cancel(gone) }
			if err := look(ctx); !errors.Is(err, gone) || looked != 1 {
				t.Errorf("%s has looked at %d names, and returned %v", what, looked, err)
			}
		}
	})
}

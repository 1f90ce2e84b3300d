package redisson

import (
	"errors"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/waittest"
)

func fencedLock(t *testing.T, b *both) {
	w, java, ours := b.world, b.java, b.ours
	for _, name := range names {
		step(t, "Excludes/"+name, func(t *testing.T) { fencedExcludes(t, w, java, ours, name) })
		step(t, "Wakes/"+name, func(t *testing.T) { fencedWakes(t, w, java, ours, name) })
	}
	t.Run("TokensGrow", func(t *testing.T) { tokensGrow(t, java, ours) })
	t.Run("OneNameOneKind", func(t *testing.T) { fencedOverPlain(t, java, ours) })
}

func fencedExcludes(t *testing.T, w *world, java *process, ours *channelapi.Locks, name string) {
	j := java.fenced(name, "main")
	j.lockAndGetToken(t, kept)
	holder, _ := w.holder(t, name)
	_, err := ours.FencedLock(name).TryAcquire(t.Context())
	if held, is := errors.AsType[*lockagent.HeldError](err); !is || held.Holder != holder {
		t.Errorf("a try gave %v, want that %s holds the lock", err, holder)
	}
	j.unlock(t)
	g := hold(t, ours.FencedLock(name))
	want(t, "isLocked", j.isLocked(t), true)
	want(t, "tryLock", j.tryLockOnce(t), false)
	if _, granted := j.tryLockAndGetToken(t, 0, forever); granted {
		t.Error("Java has the lock that we hold")
	}
	release(t, g)
	want(t, "isLocked", j.isLocked(t), false)
}

func fencedWakes(t *testing.T, w *world, java *process, ours *channelapi.Locks, name string) {
	j := java.fenced(name, "main")
	j.lock(t, forever)
	grant := ours.FencedLock(name).AcquireAsync(t.Context())
	w.awaitSubscriber(t, name)
	pending(t, grant)
	j.unlock(t)
	g := receive(t, grant)
	must(t, g.Err())
	locked := j.waits(t, w.nodeOf(name), forever)
	release(t, g)
	value(t, locked)
	j.unlock(t)
}

// tokensGrow has each side be granted the lock after each end of a hold of either side.
func tokensGrow(t *testing.T, java *process, ours *channelapi.Locks) {
	const brief = 300 * time.Millisecond
	name := "tokens"
	lock := func(opts ...channelapi.Option) *channelapi.Lock { return ours.FencedLock(name, opts...) }
	a, b := java.fenced(name, "a"), java.fenced(name, "b")
	grantedTo := func(t *testing.T, j javaFenced, lease time.Duration) int {
		t.Helper()
		token, ok := j.tryLockAndGetToken(t, forever, lease)
		want(t, "granted to Java", ok, true)
		return token
	}
	granted := func(t *testing.T) int { t.Helper(); return grantedTo(t, a, forever) }
	ends := []struct {
		title string
		last  func(*testing.T) int // returns the last token of a hold that is over, or about to end
	}{
		{"ours was released", func(t *testing.T) int {
			g := hold(t, lock())
			release(t, g)
			return int(g.Token())
		}},
		{"ours was handed off", func(t *testing.T) int {
			last, waits := hold(t, lock()), make([]<-chan lockagent.Grant, 5)
			for i := range waits {
				waits[i] = lock().AcquireAsync(t.Context())
			}
			for _, granted := range waits {
				release(t, last)
				next := receive(t, granted)
				must(t, next.Err())
				if next.Token() <= last.Token() {
					t.Errorf("token %d after %d of ours", next.Token(), last.Token())
				}
				last = next
			}
			release(t, last)
			return int(last.Token())
		}},
		{"ours was broken", func(t *testing.T) int {
			g := hold(t, lock())
			_, err := lock().Break(t.Context(), "")
			must(t, err)
			receive(t, g.Done())
			return int(g.Token())
		}},
		{"ours was forced by Java", func(t *testing.T) int {
			g := hold(t, lock())
			want(t, "forceUnlock", a.forceUnlock(t), true)
			want(t, "a release tells of the loss", errors.Is(g.Release(t.Context()), lockagent.ErrLost), true)
			return int(g.Token())
		}},
		{"the lease of ours ends", func(t *testing.T) int { return int(hold(t, lock(channelapi.Lease(brief))).Token()) }},
		{"Java's was released", func(t *testing.T) int {
			token := granted(t)
			a.unlock(t)
			return token
		}},
		{"Java's was held twice", func(t *testing.T) int {
			first := granted(t)
			second := granted(t)
			if second <= first {
				t.Errorf("token %d after %d of Java", second, first)
			}
			a.unlock(t)
			a.unlock(t)
			return second
		}},
		{"Java's was forced", func(t *testing.T) int {
			token := granted(t)
			want(t, "forceUnlock", b.forceUnlock(t), true)
			return token
		}},
		{"Java's was broken by us", func(t *testing.T) int {
			token := granted(t)
			_, err := lock().Break(t.Context(), "")
			must(t, err)
			return token
		}},
		{"the lease of Java's ends", func(t *testing.T) int { return grantedTo(t, b, brief) }},
	}
	nexts := map[string]func(*testing.T) int{
		"ours": func(t *testing.T) int {
			g, err := lock().Acquire(waittest.Context(t))
			must(t, err)
			release(t, g)
			return int(g.Token())
		},
		"Java": func(t *testing.T) int {
			token := granted(t)
			a.unlock(t)
			return token
		},
	}
	greatest := 0
	for _, end := range ends {
		for who, next := range nexts {
			last := end.last(t)
			if last <= greatest {
				t.Errorf("%s: token %d after %d", end.title, last, greatest)
			}
			if greatest = next(t); greatest <= last {
				t.Errorf("%s: the next token, of %s, is %d after %d", end.title, who, greatest, last)
			}
		}
	}
}

// fencedOverPlain has Java hold a plain lock under the name of a fenced one.
func fencedOverPlain(t *testing.T, java *process, ours *channelapi.Locks) {
	j := java.lock("plain", "taken", "main")
	j.lock(t, forever)
	if _, err := ours.FencedLock("taken").TryAcquire(t.Context()); !errors.Is(err, lockagent.ErrHeld) {
		t.Errorf("a fenced lock over a plain one: %v", err)
	}
	j.unlock(t)
}

// fencedAmongSeveral acquires a fenced lock together with another, with a lease. Redisson would give the key of the
// tokens that lease, too, and tokens would begin anew when it is over.
func fencedAmongSeveral(t *testing.T, b *both) {
	token := keyOf("redisson_lock_token", "several")
	for range 2 {
		grants, err := channelapi.All(
			t.Context(), b.ours.FencedLock("several", channelapi.Lease(forever)),
			b.ours.Lock("others", channelapi.Lease(forever)),
		)
		must(t, err)
		want(t, "the expiry of the tokens", b.remaining(token), -time.Millisecond)
		for _, g := range grants {
			release(t, g)
		}
		want(t, "the expiry of the tokens", b.remaining(token), -time.Millisecond)
		b.nodeOf(token).Do("PEXPIRE", token, "600000") // as Redisson does; ours heals that
	}
}

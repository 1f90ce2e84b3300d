package redisson

import (
	"errors"
	"strconv"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
)

// nestedHolds has each side hold a lock of each kind twice. Both see how often Java does. Only the last release lets others in.
func nestedHolds(t *testing.T, b *both) {
	session, err := b.ours.Session("ann")
	must(t, err)
	for _, k := range []struct {
		kind, wants string
		ours        func(string, ...channelapi.Option) *channelapi.SessionLock
	}{
		{"plain", "plain", session.Lock},
		{"fair", "fair", session.FairLock},
		{"fenced", "fenced", session.FencedLock},
		{"spin", "spin", session.SpinLock},
		{"read", "write", session.ReadLock},
		{"write", "write", session.WriteLock},
	} {
		for _, name := range []string{"holds " + k.kind, "{holds}/" + k.kind} {
			java, wants := b.java.lock(k.kind, name, "j1"), thing{k.wants, name}
			java.lock(t, forever)
			java.lock(t, forever)
			for count := 2; count > 0; count-- {
				want(t, "holds that Java sees", java.holdCount(t), count)
				status, err := lockOf(b.ours, k.kind)(name).Status(t.Context())
				must(t, err)
				want(t, "holds that we see", status.HoldCount, count)
				want(t, "ours is granted", b.tries(t, wants, "g"), false)
				java.unlock(t)
			}
			want(t, "ours is granted a free lock", b.tries(t, wants, "g"), true)

			lock := k.ours(name)
			hold(t, lock)
			hold(t, lock)
			for range 2 {
				want(t, "isLocked", java.isLocked(t), true)
				want(t, "holds of a thread that has none", java.holdCount(t), 0)
				want(t, "Java is granted", b.tries(t, wants, "j2"), false)
				must(t, lock.Release(t.Context()))
			}
			want(t, "Java is granted a free lock", b.tries(t, wants, "j2"), true)
		}
	}
	must(t, session.Close(t.Context()))
}

// severalLocks has each side acquire two locks at once: they are plain locks to the other side.
func severalLocks(t *testing.T, b *both) {
	names := []string{"{several}-1", "{several}-2"}
	ours := make([]channelapi.AnyLock, len(names))
	for i, name := range names {
		ours[i] = b.ours.Lock(name, channelapi.Lease(forever))
	}
	java := b.java.lock("multi", names[0]+","+names[1], "j1")
	java.lock(t, forever)
	for i, name := range names {
		_, err := ours[i].TryAcquire(t.Context())
		want(t, "our try for "+name, errors.Is(err, lockagent.ErrHeld), true)
	}
	all := channelapi.AllAsync(t.Context(), ours...)
	b.awaitSubscriber(t, names[0])
	pending(t, all)
	java.unlock(t)
	got := receive(t, all)
	must(t, got.Err())
	want(t, "tryLock of both", java.tryLock(t, 0, forever), false)
	for i, name := range names {
		want(t, "Java's try for "+name, b.tries(t, thing{"plain", name}, "j"+strconv.Itoa(2+i)), false)
	}
	locked := java.send("lock", forever)
	for _, g := range got.List() {
		pending(t, locked)
		release(t, g)
	}
	value(t, locked)
	java.unlock(t)
}

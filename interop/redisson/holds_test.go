package redisson

import (
	"errors"
	"slices"
	"strconv"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
)

// nestedHolds has each side hold a lock of each kind twice. Both see how often Java does. Only the last release lets
// others in.
func nestedHolds(t *testing.T, b *both) {
	session, err := b.ours.Session("ann")
	must(t, err)
	for _, k := range []struct {
		kind, wants string
		ours        func(string, ...channelapi.Option) *channelapi.SessionLock
		value       string // of the field of our tenure, see decision 20
	}{
		{"plain", "plain", session.Lock, "2"},
		{"fair", "fair", session.FairLock, "3"},
		{"fenced", "fenced", session.FencedLock, "4"},
		{"spin", "spin", session.SpinLock, "5"},
		{"read", "write", session.ReadLock, "1"},
		{"write", "write", session.WriteLock, "1"},
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
			if values := b.nodeOf(name).Do("HVALS", name).([]any); !slices.Contains(values, any(k.value)) {
				t.Errorf("the lock has the values %q, want %s for our tenure", values, k.value)
			}
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

// severalLocks has each side hold two locks at once, twice. They are plain locks to the other side. Both see how often
// Java has each, and only the last release lets others in.
func severalLocks(t *testing.T, b *both) {
	session, err := b.ours.Session("bob")
	must(t, err)
	names := []string{"{several}-1", "{several}-2"}
	ours := make([]channelapi.AnyLock, len(names))
	for i, name := range names {
		ours[i] = session.Lock(name, channelapi.Lease(forever))
	}
	java := b.java.lock("multi", names[0]+","+names[1], "j1")
	java.lock(t, forever)
	java.lock(t, forever)
	for count := 2; count > 0; count-- {
		if count == 1 {
			java.unlock(t)
		}
		for i, name := range names {
			want(t, "holds that Java sees", b.java.lock("plain", name, "j1").holdCount(t), count)
			status, err := b.ours.Lock(name).Status(t.Context())
			must(t, err)
			want(t, "holds that we see", status.HoldCount, count)
			_, err = ours[i].TryAcquire(t.Context())
			want(t, "our try for "+name, errors.Is(err, lockagent.ErrHeld), true)
		}
	}
	all := channelapi.AllAsync(t.Context(), ours...)
	b.awaitSubscriber(t, names[0])
	pending(t, all)
	java.unlock(t)
	got := receive(t, all)
	must(t, got.Err())
	again, err := channelapi.All(t.Context(), ours...)
	must(t, err)
	excludesJava := func(count int) {
		t.Helper()
		want(t, "tryLock of both", java.tryLock(t, 0, forever), false)
		for i, name := range names {
			status, err := b.ours.Lock(name).Status(t.Context())
			must(t, err)
			want(t, "our holds of "+name, status.HoldCount, count)
			plain := b.java.lock("plain", name, "j"+strconv.Itoa(2+i))
			want(t, "isLocked", plain.isLocked(t), true)
			want(t, "holds of a thread that has none", plain.holdCount(t), 0)
			want(t, "Java's try for "+name, plain.tryLockOnce(t), false)
		}
	}
	excludesJava(2)
	for _, g := range again {
		release(t, g)
	}
	excludesJava(1)
	locked := java.send("lock", forever)
	for _, g := range got.List() {
		pending(t, locked)
		release(t, g)
	}
	value(t, locked)
	java.unlock(t)
	must(t, session.Close(t.Context()))
}

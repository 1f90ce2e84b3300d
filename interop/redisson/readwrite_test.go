package redisson

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/waittest"
)

func readWriteLock(t *testing.T, b *both) {
	for _, test := range []struct {
		title string
		run   func(*testing.T, *both, string)
	}{
		{"EachSideLeavesLast", eachSideLeavesLast},
		{"AWriterIsAlone", aWriterIsAlone},
		{"WeReadOnAfterWeHaveWritten", weDowngrade},
		{"NoUpgrade", noUpgrade},
		{"AnotherReaderKeepsItsLease", readersKeepLeases},
		{"JavaForcesOurLock", javaForcesReadWrite},
		{"JavaForcesOurLockAndWrites", javaWritesInBetween},
		{"WeBreakTheLockOfJava", weBreakReadWrite},
	} {
		for _, name := range []string{"pages", "{pages}/42"} {
			step(t, test.title+"/"+strings.ReplaceAll(name, "/", "-"), func(t *testing.T) { test.run(t, b, name) })
			step(t, "NothingIsLeft", func(t *testing.T) { b.nothingIsLeft(t, name) })
		}
	}
}

// nothingIsLeft checks that the keys of Redisson are gone.
func (b *both) nothingIsLeft(t *testing.T, name string) {
	t.Helper()
	if left := wireOf(t, b.nodeOf(name), name, &nicknames{of: make(map[string]string)}); len(left) > 0 {
		t.Errorf("there are still %q", left)
	}
}

// free checks who of both sides could read, and write.
func (b *both) free(t *testing.T, name string, read, write bool) {
	t.Helper()
	for _, who := range []string{"j8", "g8"} {
		want(t, who+" can read", b.tries(t, thing{"read", name}, who), read)
		want(t, who+" can write", b.tries(t, thing{"write", name}, who), write)
	}
}

// eachSideLeavesLast has readers of both sides come, and leave in different orders. The last one wakes a writer.
func eachSideLeavesLast(t *testing.T, b *both, name string) {
	for _, came := range []string{"jg", "gj", "jgj", "gjg"} {
		for first := range came {
			var all []*someone
			for i := range came {
				all = append(all, b.has(t, thing{"read", name}, came[i:i+1]+strconv.Itoa(i), forever))
			}
			leaving := slices.Concat(all[first:first+1], all[:first], all[first+1:])
			last := leaving[len(all)-1]
			for _, s := range leaving[:len(all)-1] {
				b.free(t, name, true, false)
				s.leaves(t)
			}
			b.free(t, name, true, false)
			writer := b.javaWaits(t, thing{"write", name}, "j9")
			b.wouldLast(t, name)
			last.leaves(t)
			writer.gets(t)
			writer.leaves(t)
			b.free(t, name, true, true)
		}
	}
}

// aWriterIsAlone has a writer of each side keep everybody out, and let in whoever waits.
func aWriterIsAlone(t *testing.T, b *both, name string) {
	for _, who := range []string{"j1", "g1"} {
		writer := b.has(t, thing{"write", name}, who, forever)
		holder, count := b.writer(t, name)
		want(t, "holds in Redis", count, "1")
		_, err := b.ours.ReadLock(name).TryAcquire(t.Context())
		if held, is := errors.AsType[*lockagent.HeldError](err); who == "j1" && (!is || held.Holder != holder) {
			t.Errorf("a try gave %v, want that %s holds the lock", err, holder)
		}
		b.free(t, name, false, false)
		want(t, "isLocked", b.java.lock("write", name, "j8").isLocked(t), true)
		b.java.refuses(t, "IllegalMonitorState", "j8", "write.unlock", name)
		java := b.javaWaits(t, thing{"read", name}, "j2")
		ours := b.come(t, thing{"read", name}, "g2", forever)
		b.awaitListening(t, thing{"read", name})
		writer.leaves(t)
		java.gets(t)
		ours.gets(t)
		b.awaitNoOutsider(t, name)
		b.free(t, name, true, false)
		java.leaves(t)
		ours.leaves(t)
	}
}

// awaitNoOutsider waits until Java listens no more. That takes a moment after a wait. Whoever listens may wait to
// write, so no reader of ours joins meanwhile.
func (b *both) awaitNoOutsider(t *testing.T, name string) {
	t.Helper()
	agents := "lockagent_agents"
	if strings.Contains(name, "{") {
		agents += ":" // our keys have two colons then
	}
	waittest.Until(t, "the end of Java's subscription", func() bool {
		outsiders := int64(0)
		for _, count := range b.counts {
			counts := b.nodeOf(name).Do("PUBSUB", count, keyOf("redisson_rwlock", name), keyOf(agents, name)).([]any)
			outsiders += counts[1].(int64) - counts[3].(int64)
		}
		return outsiders <= 0
	})
}

// writer is who writes, and the count.
func (b *both) writer(t *testing.T, name string) (who, count string) {
	t.Helper()
	fields := b.nodeOf(name).Do("HGETALL", name).([]any)
	for pair := range slices.Chunk(fields, 2) {
		if who, writes := strings.CutSuffix(pair[0].(string), ":write"); writes {
			if !owner.MatchString(who) {
				t.Errorf("the writer is %q", who)
			}
			return who, pair[1].(string)
		}
	}
	t.Fatalf("nobody writes: %v", fields)
	return "", ""
}

// javaDowngrades has a thread of Java read while it writes, and go on reading. A reader of ours that waits learns of
// it, though Redisson tells nobody. One that waited for the lease to end would outlast the test.
func javaDowngrades(t *testing.T, b *both) {
	const name = "pages"
	writes, reads := b.has(t, thing{"write", name}, "j1", forever), b.has(t, thing{"read", name}, "j1", forever)
	b.free(t, name, false, false)
	ours := b.come(t, thing{"read", name}, "g1", kept)
	b.awaitListening(t, ours.thing)
	ours.waits(t)
	b.wouldLast(t, name)
	writes.leaves(t)
	ours.gets(t)
	b.free(t, name, true, false)
	reads.leaves(t)
	b.free(t, name, true, false)
	ours.leaves(t)
	b.free(t, name, true, true)
}

// weDowngrade has a session of ours do the same. A reader of Java that waits learns of it at once.
func weDowngrade(t *testing.T, b *both, name string) {
	session, err := b.ours.Session("ann")
	must(t, err)
	writes := hold(t, session.WriteLock(name, channelapi.Lease(forever)))
	reads := hold(t, session.ReadLock(name, channelapi.Lease(forever)))
	b.free(t, name, false, false)
	java := b.javaWaits(t, thing{"read", name}, "j1")
	b.wouldLast(t, name)
	release(t, writes)
	java.gets(t)
	b.awaitNoOutsider(t, name)
	b.free(t, name, true, false)
	release(t, reads)
	b.free(t, name, true, false)
	java.leaves(t)
	must(t, session.Close(t.Context()))
}

// noUpgrade has a session of ours read and ask to write. Redisson would wait for itself.
func noUpgrade(t *testing.T, b *both, name string) {
	session, err := b.ours.Session("ann")
	must(t, err)
	java := b.has(t, thing{"read", name}, "j1", forever)
	g := hold(t, session.ReadLock(name))
	_, err = session.WriteLock(name).Acquire(t.Context())
	want(t, "ErrUpgrade", errors.Is(err, channelapi.ErrUpgrade), true)
	java.leaves(t)
	_, err = session.WriteLock(name).Acquire(t.Context())
	want(t, "ErrUpgrade of the only reader", errors.Is(err, channelapi.ErrUpgrade), true)
	release(t, g)
	must(t, session.Close(t.Context()))
}

// readersKeepLeases has a reader leave whose lease is longer, or shorter, than that of a reader of the other side.
func readersKeepLeases(t *testing.T, b *both, name string) {
	for _, sides := range []string{"jg", "gj"} {
		for _, lease := range []time.Duration{forever / 2, 2 * forever} {
			stays := b.has(t, thing{"read", name}, sides[:1]+"1", forever)
			goes := b.has(t, thing{"read", name}, sides[1:]+"2", lease)
			goes.leaves(t)
			if left := b.remaining(name); left < forever*3/4 {
				t.Errorf("a lease of %v after the end of one of %v: %v are left", forever, lease, left)
			}
			b.free(t, name, true, false)
			stays.leaves(t)
		}
	}
}

// javaForcesReadWrite has Java force our lock. We learn of it, and who waits gets the lock.
func javaForcesReadWrite(t *testing.T, b *both, name string) {
	for _, kind := range []string{"read", "write"} {
		g := hold(t, lockOf(b.others, kind)(name))
		java := b.javaWaits(t, thing{"write", name}, "j1")
		want(t, "forceUnlock", b.java.lock(kind, name, "j9").forceUnlock(t), true)
		java.gets(t)
		want(t, "our hold is lost", errors.Is(g.Release(t.Context()), lockagent.ErrLost), true)
		b.free(t, name, false, false)
		java.leaves(t)
		b.clean(t, name)
	}
}

// javaWritesInBetween has Java force the lock of our readers, write, and leave. A reader learns of it when it releases
// the lock.
func javaWritesInBetween(t *testing.T, b *both, name string) {
	for _, lease := range []time.Duration{kept, forever} {
		reader := b.has(t, thing{"read", name}, "g1", lease)
		want(t, "forceUnlock", b.java.lock("read", name, "j9").forceUnlock(t), true)
		b.has(t, thing{"write", name}, "j1", forever).leaves(t)
		denied(t, reader.held.Release(t.Context()))
		b.free(t, name, true, true)
	}
}

// denied checks that a hold was lost because the store does not have it any more.
func denied(t *testing.T, err error) {
	t.Helper()
	if lost, _ := errors.AsType[*lockagent.LostError](err); lost == nil || lost.Reason != lockagent.LostDenied {
		t.Errorf("the loss is %v", err)
	}
}

// weBreakReadWrite breaks a lock of Java, for which Java waits. If ours waited, too, Java could miss our message while
// it goes to sleep.
func weBreakReadWrite(t *testing.T, b *both, name string) {
	for _, kind := range []string{"read", "write"} {
		holder := b.has(t, thing{kind, name}, "j0", forever)
		java := b.javaWaits(t, thing{"write", name}, "j1")
		broken, err := lockOf(b.ours, kind)(name).Break(t.Context(), "operator")
		must(t, err)
		want(t, "broken", broken, true)
		java.gets(t) // by our message: an unlock of a hash that is gone would wake it, too
		if a := receive(t, holder.java.send("unlock")); a.err == nil {
			t.Error("Java released a lock that was broken")
		}
		b.free(t, name, false, false)
		java.leaves(t)
		b.free(t, name, true, true)
		b.clean(t, name)
	}
}

// javaWritesAmongReaders has goroutines of ours read without a pause, in one agent and in two. Each agent has one hold
// in Redis for all of them. A writer of Java would have to wait until that is renewed, if the agent did not ask for
// those who wait.
func javaWritesAmongReaders(t *testing.T, b *both) {
	const name = "pages"
	java := b.java.lock("write", name, "j1")
	for _, ours := range [][]*channelapi.Locks{{b.ours}, {b.ours, b.others}} {
		stop := readOn(t, ours, name)
		defer stop()
		for _, asks := range []func(){
			func() { java.lock(t, forever) },
			func() { want(t, "tryLock", java.tryLock(t, forever, forever), true) },
		} {
			waittest.Until(t, "no writer had its turn lately", func() bool {
				return len(b.nodeOf(name).Do("KEYS", "lockagent_turn*").([]any)) == 0 &&
					b.nodeOf(name).Do("HGET", name, "mode") == "read"
			})
			asks()
			java.unlock(t)
		}
		stop()
	}
}

// readOn has 8 goroutines of each agent read, so slowly that there is always a reader. It returns what ends them.
func readOn(t *testing.T, ours []*channelapi.Locks, name string) (stop func()) {
	var stopped atomic.Bool
	var readers sync.WaitGroup
	for i := range 8 * len(ours) {
		lock := ours[i%len(ours)].ReadLock(name)
		readers.Go(func() {
			for !stopped.Load() {
				err := lock.Do(t.Context(), func(context.Context, channelapi.Grant) error {
					<-time.After(10 * time.Millisecond)
					return nil
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	return func() {
		stopped.Store(true)
		readers.Wait()
	}
}

// clean removes what is left of readers whose lock was broken: their keys last as long as their leases.
func (b *both) clean(t *testing.T, name string) {
	t.Helper()
	waittest.Until(t, "no hold", func() bool { return b.nodeOf(name).Do("EXISTS", name) == any(int64(0)) })
	for _, key := range b.nodeOf(name).Do("KEYS", "*").([]any) {
		if strings.Contains(key.(string), "rwlock_timeout") && isOf(key.(string), name) {
			b.nodeOf(name).Do("DEL", key.(string))
		}
	}
}

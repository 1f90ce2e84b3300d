package redisson

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/waittest"
)

// sharedSemaphore has each side take permits of a semaphore, give them back, and wait for the other.
func sharedSemaphore(t *testing.T, b *both) {
	w, java, locks := b.world, b.java, b.ours
	for _, name := range []string{"tables", "столы{7}"} {
		ours, theirs := locks.Semaphore(name), java.semaphore(name, "main")
		redis := w.nodeOf(name)
		numbers := func(free, taken int) {
			t.Helper()
			s, err := ours.Status(t.Context())
			must(t, err)
			if n := theirs.availablePermits(t); s.Free != free || s.Taken != taken || n != free {
				t.Errorf("we read %+v, and Java %d; want %d free and %d taken by us", s, n, free, taken)
			}
		}
		want(t, "trySetPermits", theirs.trySetPermits(t, 5), true)
		set, err := ours.TrySetPermits(t.Context(), 9)
		must(t, err)
		want(t, "TrySetPermits again", set, false)
		g, err := ours.Acquire(t.Context(), 3)
		must(t, err)
		numbers(2, 3)
		theirs.acquire(t, 2)
		numbers(0, 3)
		_, err = ours.TryAcquire(t.Context(), 1)
		want(t, "ErrHeld", errors.Is(err, channelapi.ErrHeld), true)
		want(t, "tryAcquire", theirs.tryAcquire(t, 1, 20*time.Millisecond), false)

		acquired := java.semaphore(name, "waiter").waits(t, redis, 2) // Java waits for us
		must(t, g.Release(t.Context()))
		value(t, acquired)
		numbers(1, 0)
		waits := ours.AcquireAsync(t.Context(), 3) // we wait for Java
		theirs.release(t, 2)
		g = receive(t, waits)
		must(t, g.Err())
		numbers(0, 3)
		theirs.addPermits(t, -4)
		must(t, g.Release(t.Context()))
		numbers(-1, 0)
		free, err := ours.AddPermits(t.Context(), 3)
		must(t, err)
		want(t, "free", free, 2)
		n, err := ours.Drain(t.Context())
		must(t, err)
		want(t, "drained", n, 2)
		numbers(0, 0)

		outlives(
			t, 1, func(thread string) <-chan answer { return java.semaphore(name, thread).waits(t, redis, 1) }, ours, theirs,
		)
		numbers(0, 0)
	}
}

// outlives deletes a semaphore under a waiter of Java. The waiter waits until the semaphore is set again, to a number
// of permits that it takes. Each side deletes it once, and the other sets it.
func outlives(t *testing.T, n int, waits func(thread string) <-chan answer, ours interface {
	Delete(context.Context) (bool, error)
	TrySetPermits(context.Context, int) (bool, error)
}, theirs interface {
	delete(*testing.T) bool
	trySetPermits(*testing.T, int) bool
},
) {
	yes := func(done bool, err error) bool { t.Helper(); must(t, err); return done }
	acquired := waits("left by Java")
	want(t, "deleted by Java", theirs.delete(t), true)
	pending(t, acquired)
	want(t, "set by us", yes(ours.TrySetPermits(t.Context(), n)), true)
	value(t, acquired)
	acquired = waits("left by us")
	want(t, "deleted by us", yes(ours.Delete(t.Context())), true)
	pending(t, acquired)
	want(t, "set by Java", theirs.trySetPermits(t, n), true)
	value(t, acquired)
}

func queueOf(name string) string {
	if strings.Contains(name, "{") {
		return "lockagent_queue::" + name
	}
	return "lockagent_queue:{" + name + "}"
}

// sharedPermits has each side take permits, and the other one release and extend them by their ids.
func sharedPermits(t *testing.T, b *both) {
	w, java, locks := b.world, b.java, b.ours
	for _, name := range []string{"seats", "места{7}"} {
		ours, theirs := locks.Permits(name), java.permits(name, "main")
		redis, timeouts := w.nodeOf(name), "{"+name+"}:timeout"
		if strings.Contains(name, "{") {
			timeouts = name + ":timeout"
		}
		numbers := func(free, taken int) {
			t.Helper()
			s, err := ours.Status(t.Context())
			must(t, err)
			a, b, all := theirs.availablePermits(t), theirs.acquiredPermits(t), theirs.getPermits(t)
			if s.Free != free || s.Taken != taken || a != free || b != taken || all != free+taken {
				t.Errorf("we read %+v, and Java %d, %d and %d in all; want %d free and %d taken", s, a, b, all, free, taken)
			}
		}
		must(t, ours.SetPermits(t.Context(), 5))
		numbers(5, 0)
		end := func(id string) any {
			t.Helper()
			raw, err := hex.DecodeString(id)
			must(t, err)
			return redis.Do("ZSCORE", timeouts, string(raw))
		}
		ids := append(theirs.acquire(t, 1, forever), theirs.acquire(t, 1, kept)...)
		g, err := ours.Acquire(t.Context(), 2)
		must(t, err)
		numbers(1, 4)
		for _, id := range g.PermitIDs() {
			want(t, "updateLeaseTime of ours", theirs.updateLeaseTime(t, string(id), 2*forever), true)
		}
		before := end(ids[0])
		must(t, ours.ExtendID(t.Context(), channelapi.PermitID(ids[0]), time.Minute))
		want(t, "the end of a lease that is not shortened", end(ids[0]), before)
		must(t, ours.ExtendID(t.Context(), channelapi.PermitID(ids[0]), 2*forever))
		want(t, "the same end of a lease that is extended", end(ids[0]) == before, false)
		must(t, ours.ExtendID(t.Context(), channelapi.PermitID(ids[1]), forever))
		want(t, "no end", end(ids[1]) == any("922337203685477"), false)

		acquired := java.permits(name, "waiter").waits(t, redis, 3, forever) // Java waits for us
		must(t, g.Release(t.Context()))
		more := strings.Split(value(t, acquired), ",")
		numbers(0, 5)
		waits := ours.AcquireAsync(t.Context(), 2) // we wait for Java
		want(t, "tryRelease", theirs.tryRelease(t, more[0], more[1]), 2)
		g = receive(t, waits)
		must(t, g.Err())
		numbers(0, 5)

		must(t, ours.ReleaseID(t.Context(), channelapi.PermitID(more[2])))
		must(t, ours.ReleaseID(t.Context(), channelapi.PermitID(ids[0])))
		want(
			t, "ErrNoPermit", errors.Is(ours.ReleaseID(t.Context(), channelapi.PermitID(ids[0])), channelapi.ErrNoPermit), true,
		)
		want(t, "tryRelease of what we released", theirs.tryRelease(t, ids[0]), 0)
		granted := g.PermitIDs()
		want(t, "tryRelease of ours", theirs.tryRelease(t, string(granted[0]), string(granted[1])), 2)
		numbers(4, 1)
		if err := g.Release(t.Context()); !errors.Is(err, lockagent.ErrLost) {
			t.Errorf("the release of a grant that Java released: %v", err)
		}
		numbers(4, 1)

		// Redisson before 3.17 wrote the ids as text.
		const old = "0123456789abcdef0123456789abcdef"
		redis.Do("DECR", name)
		redis.Do("ZADD", timeouts, "922337203685477", old)
		numbers(3, 2)
		must(t, ours.ReleaseID(t.Context(), old))
		numbers(4, 1)

		// Our ids are in the format of today.
		g, err = ours.Acquire(t.Context(), 1)
		must(t, err)
		if end(string(g.PermitIDs()[0])) == nil {
			t.Error("the id of our permit is not in the zset")
		}
		must(t, g.Release(t.Context()))
		redis.Do("PEXPIRE", name, "600000")
		g, err = ours.Acquire(t.Context(), 1)
		must(t, err)
		must(t, g.Release(t.Context()))
		if left := w.remaining(name); left <= 0 {
			t.Errorf("the semaphore lives for %v", left)
		}
		want(t, "delete", theirs.delete(t), true)

		must(t, ours.SetPermits(t.Context(), 1))
		outlives(
			t, 2, func(thread string) <-chan answer { return java.permits(name, thread).waits(t, redis, 2, forever) }, ours,
			theirs,
		)
		numbers(0, 2)
	}
}

// tooManyPermits has us ask for more permits than there are. Java and others of ours go first meanwhile. Then Java
// changes the number of permits, and its messages wake us.
func tooManyPermits(t *testing.T, b *both) {
	const name = "benches"
	ctx := t.Context()
	ours, others, java := b.ours.Permits(name), b.others.Permits(name), b.java.permits(name, "main")
	redis, ear := b.nodeOf(name), b.hears.of(name)
	gets := func(grants <-chan channelapi.Grant, n int) channelapi.Grant {
		t.Helper()
		g := receive(t, grants)
		must(t, g.Err())
		want(t, "permits", len(g.PermitIDs()), n)
		return g
	}
	must(t, ours.SetPermits(t.Context(), 5))
	large := ours.AcquireAsync(ctx, 6)
	b.awaitListening(t, thing{"permits", name})
	ids := java.acquire(t, 1, forever)
	g := gets(others.AcquireAsync(ctx, 1), 1)
	acquired := b.java.permits(name, "waiter").waits(t, redis, 4, forever)
	release(t, g)
	ids = append(ids, strings.Split(value(t, acquired), ",")...)
	small := others.AcquireAsync(ctx, 1)
	b.awaitPermitPlaces(t, name, 1, 2) // the large request has none
	ear.needsMessage(t)
	java.addPermits(t, 1) // the large request is not too large any more, and has its place
	g = gets(small, 1)
	b.awaitPermitPlaces(t, name, 1, 1)
	want(t, "tryRelease", java.tryRelease(t, ids...), 5)
	pending(t, large)
	release(t, g)
	release(t, gets(large, 6))
	java.setPermits(t, 5)
	for _, change := range []struct {
		take func(id string)
		give func()
	}{
		{
			take: func(string) { java.setPermits(t, 3) },
			give: func() { java.addPermits(t, 2) },
		},
		{
			take: func(id string) {
				java.addPermits(t, -2) // Redisson tells nobody
				java.release(t, id)
			},
			give: func() { java.setPermits(t, 5) },
		},
	} {
		ids := java.acquire(t, 2, forever)
		large := ours.AcquireAsync(ctx, 4) // 3 are free
		b.awaitPermitPlaces(t, name, 1, 1)
		small := others.AcquireAsync(ctx, 1)
		b.awaitPermitPlaces(t, name, 2, 2)
		pending(t, small)
		change.take(ids[0])
		release(t, gets(small, 1))
		for _, id := range ids {
			java.tryRelease(t, id)
		}
		pending(t, large) // for 4 of 3
		ear.needsMessage(t)
		change.give()
		release(t, gets(large, 4))
	}
}

// awaitPermitPlaces waits until some requests of ours have places in the queue for permits, and so many agents hear of
// changes.
func (b *both) awaitPermitPlaces(t *testing.T, name string, places, agents int64) {
	t.Helper()
	waittest.Until(
		t, "places in the queue", func() bool { return b.nodeOf(name).Do("ZCARD", queueOf(name)) == any(places) },
	)
	b.awaitSubscribers(t, keyOf("redisson_sc", name), agents)
}

// permitsTakenAway takes permits away while Java waits. The listener of a Java program fails if the message is a
// negative number.
func permitsTakenAway(t *testing.T, b *both) {
	const name = "less"
	before := len(b.java.log.String()) // what others have Java do may be logged, too
	ours := b.ours.Semaphore(name)
	_, err := ours.TrySetPermits(t.Context(), 1)
	must(t, err)
	holder := b.has(t, thing{"semaphore", name}, "g1", forever)
	java := b.javaWaits(t, thing{"semaphore", name}, "j1")
	for _, n := range []int{-10, 3, 8, -1} { // -10 free, -7, 1, which Java gets, and -1
		_, err := ours.AddPermits(t.Context(), n)
		must(t, err)
		if n == 8 {
			java.gets(t)
		}
	}
	java = b.javaWaits(t, thing{"semaphore", name}, "j1")
	holder.leaves(t) // 0
	java.waits(t)
	_, err = ours.AddPermits(t.Context(), 1)
	must(t, err)
	java.gets(t)
	if log := b.java.log.String()[before:]; strings.Contains(log, "SemaphorePubSub") { // in the stack of an exception
		t.Errorf("a listener of Java has failed:\n%s", log)
	}
}

// deletedByJava has Java delete a semaphore for which several of ours wait. Redisson tells nobody.
func deletedByJava(t *testing.T, b *both) {
	for _, kind := range []string{"semaphore", "permits"} {
		w := thing{kind, "deleted " + kind}
		b.make(t, w)
		b.has(t, w, "j1", forever)
		var waiters []<-chan channelapi.Grant
		for i, ours := range []*channelapi.Locks{b.ours, b.others, b.ours} {
			waiters = append(waiters, request(t.Context(), ours, w))
			waittest.Until(
				t, "places in the queue", func() bool { return b.nodeOf(w.name).Do("ZCARD", queueOf(w.name)) == any(int64(i+1)) },
			)
		}
		want(t, "delete", object{b.java, "j2", kind, w.name}.is(t, "delete"), true)
		for _, grants := range waiters {
			if err := receive(t, grants).Err(); !errors.Is(err, channelapi.ErrDeleted) {
				t.Fatalf("%s: a wait ended with %v", kind, err)
			}
		}
	}
}

package redisson

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/waittest"
)

// short is a lease whose end a test can wait for. It is renewed three times before it would end. In a Cluster leases are longer,
// because several servers have to start and to run beside the other tests.
const short = 2 * time.Second

// Five renewals take longer than the lease.
const renewals = 5

// orphans are what a process that is killed had, each with what somebody else waits for.
var orphans = []struct{ had, wants string }{
	{"plain", "plain"}, {"fair", "fair"}, {"fenced", "fenced"}, {"spin", "spin"}, {"read", "write"}, {"write", "read"},
}

func TestWeGetTheLocksOfAKilledJava(t *testing.T) {
	t.Parallel()
	weGetTheLocksOfAKilledJava(t, single(t), short)
}

func TestWeGetTheLocksOfAKilledJavaInACluster(t *testing.T) {
	t.Parallel()
	weGetTheLocksOfAKilledJava(t, cluster(t), 3*short)
}

// Java keeps its locks for longer than a lease. We get them when it was killed and the leases have ended.
func weGetTheLocksOfAKilledJava(t *testing.T, w *world, lease time.Duration) {
	b := w.start(t, lease)
	var names []string
	var waiters []*someone
	for i, o := range orphans {
		names = append(names, "orphan "+o.had)
		b.has(t, thing{o.had, names[i]}, "j"+strconv.Itoa(i), kept)
		want(t, "our try for "+names[i], b.tries(t, thing{o.wants, names[i]}, "g"), false)
		waiters = append(waiters, b.come(t, thing{o.wants, names[i]}, "g", kept))
	}
	multi := []string{"orphan multi-1", "orphan multi-2"}
	b.java.lock("multi", strings.Join(multi, ","), "j").lock(t, kept)
	var ours []channelapi.AnyLock
	for _, name := range multi {
		want(t, "our try for "+name, b.tries(t, thing{"plain", name}, "g"), false)
		ours = append(ours, b.ours.Lock(name))
	}
	all := channelapi.AllAsync(t.Context(), ours...)
	b.awaitRenewals(t, renewals, append(names, multi...)...) // so they are not free while Java lives
	permits := thing{"permits", "orphan permits"}
	b.make(t, permits)
	b.has(t, permits, "j", lease) // Redisson does not renew these
	waiters = append(waiters, b.come(t, permits, "g", kept))
	for _, w := range waiters {
		w.waits(t)
	}
	pending(t, all)
	b.java.kill()
	for _, w := range waiters {
		w.gets(t)
		w.leaves(t)
	}
	got := receive(t, all)
	must(t, got.Err())
	for _, g := range got.List() {
		release(t, g)
	}
}

func TestJavaGetsTheLocksOfAKilledAgent(t *testing.T) {
	t.Parallel()
	javaGetsTheLocksOfAKilledAgent(t, single(t), short)
}

func TestJavaGetsTheLocksOfAKilledAgentInACluster(t *testing.T) {
	t.Parallel()
	javaGetsTheLocksOfAKilledAgent(t, cluster(t), 3*short)
}

// An agent keeps what it has for longer than a lease. Java gets that when the agent was killed and the leases have ended.
// Redisson's semaphores have no leases: another agent of ours has to see that the permits are orphans.
func javaGetsTheLocksOfAKilledAgent(t *testing.T, w *world, lease time.Duration) {
	b := w.start(t, lease)
	agent := b.startAgent(t, lease)
	var locks []string
	var waiters []*someone
	for i, o := range append(orphans, struct{ had, wants string }{"permits", "permits"}, struct{ had, wants string }{"semaphore", "semaphore"}) {
		name := "orphan " + o.had
		b.make(t, thing{o.had, name})
		agent.do(t, "main", o.had+".lock", name)
		if i < len(orphans) {
			locks = append(locks, name)
		}
		want(t, "Java's try for "+name, b.tries(t, thing{o.wants, name}, "j"+strconv.Itoa(i)), false)
		waiters = append(waiters, b.come(t, thing{o.wants, name}, "j"+strconv.Itoa(i), kept))
	}
	multi := []string{"orphan multi-1", "orphan multi-2"}
	for _, name := range multi {
		agent.do(t, "main", "plain.lock", name)
	}
	java := b.java.lock("multi", strings.Join(multi, ","), "several")
	want(t, "Java's try for both", java.tryLock(t, 0, forever), false)
	all := java.send("lock", forever)
	locks = append(locks, multi...)
	b.awaitRenewals(t, renewals, locks...) // so they are not free while the agent lives
	pending(t, all)
	for _, w := range waiters {
		w.waits(t)
	}
	agent.kill()
	waittest.Until(t, "permits to come back", func() bool {
		s, err := b.ours.Semaphore("orphan semaphore").Status(t.Context())
		must(t, err)
		return s.Taken == 0
	})
	for _, w := range waiters {
		w.gets(t)
		w.leaves(t)
	}
	value(t, all)
	java.unlock(t)
}

// An agent that is killed has a permit of Redisson's semaphore, which knows no leases. Any other agent of ours that has a permit, or waits for
// some, gives it back to Java, though nobody asks it for anything.
func TestJavaGetsThePermitOfAKilledAgent(t *testing.T) {
	t.Parallel()
	for title, comes := range map[string]func(*testing.T, *both, thing) (leaves func()){
		"AnotherHolds": func(t *testing.T, b *both, w thing) (leaves func()) {
			_, err := b.ours.Semaphore(w.name).AddPermits(t.Context(), 1)
			must(t, err)
			holder := b.has(t, w, "g1", kept)
			return func() { holder.leaves(t) }
		},
		"AnotherWaits": func(t *testing.T, b *both, w thing) (leaves func()) {
			ctx, cancel := context.WithCancel(t.Context())
			b.ours.Semaphore(w.name).AcquireAsync(ctx, 2) // more than there are
			b.awaitPermitPlaces(t, w.name, 1)
			return cancel
		},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			b, w := single(t).start(t, short), thing{"semaphore", "orphan"}
			b.make(t, w)
			agent := b.startAgent(t, short)
			agent.do(t, "main", "semaphore.lock", w.name)
			leaves := comes(t, b, w)
			waits := b.come(t, w, "j1", kept)
			b.java.awaitSleep(t, "j1")
			agent.kill()
			waits.gets(t)
			waits.leaves(t)
			leaves()
		})
	}
}

// A reader of Java is killed. Readers of ours come and go all the time, so the lock lives on. Still the dead reader goes away, and
// keeps no writer of Java out. A writer that waited earlier would keep new readers of ours away.
func TestADeadReaderOfJavaGoesAway(t *testing.T) {
	t.Parallel()
	const name = "pages"
	b := single(t).start(t, short)
	victim := b.startJava(t, short)
	dead := victim.lock("read", name, "main")
	dead.lock(t, kept)
	field := b.nodeOf(name).Do("HKEYS", name).([]any)[1].(string) // behind the mode
	want(t, "the field of a reader", owner.MatchString(field), true)
	agents := []*channelapi.Locks{b.ours, b.others}
	reads, err := agents[0].ReadLock(name).Acquire(t.Context())
	must(t, err)
	victim.kill()
	round := 0
	waittest.Until(t, "the end of the dead reader", func() bool {
		round++
		next, err := agents[round%2].ReadLock(name).Acquire(t.Context())
		must(t, err)
		release(t, reads)
		reads = next
		return b.nodeOf(name).Do("HGET", name, field) == nil
	})
	writer := b.come(t, thing{"write", name}, "j1", kept)
	writer.waits(t)
	release(t, reads)
	writer.gets(t)
	writer.leaves(t)
}

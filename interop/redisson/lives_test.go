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

// short is a lease whose end a test can wait for. It is renewed every three seconds, so that its holder may be late on
// a busy machine.
const short = 9 * time.Second

// renewals is how many a test waits for, to see that a lease is kept.
const renewals = 2

// orphans are what a process that is killed had, each with what somebody else waits for.
var orphans = []struct{ had, wants string }{
	{"plain", "plain"}, {"fair", "fair"}, {"fenced", "fenced"}, {"spin", "spin"}, {"read", "write"}, {"write", "read"},
}

// legacy is something that a process has when it is killed. A part of a test prepares it, and returns what to see
// afterwards. The victim is the process of ours that will be killed. If that is Java, it is the one of both, and there
// is no victim.
type legacy struct {
	title   string
	prepare func(t *testing.T, b *both, victim *process) (after func(*testing.T))
}

// killWith has all parts prepare, kills the process of them all, and has each part see what follows.
func killWith(t *testing.T, b *both, victim *process, parts []legacy) {
	var all []func(*testing.T)
	for _, part := range parts {
		all = append(all, part.prepare(t, b, victim))
	}
	if victim != nil {
		victim.kill()
	} else {
		b.java.kill()
	}
	for i, after := range all {
		step(t, parts[i].title, after)
	}
}

func TestP07P09WeGetWhatAKilledJavaHad(t *testing.T) {
	t.Parallel()
	weGetWhatAKilledJavaHad(t, single(t))
}

func weGetWhatAKilledJavaHad(t *testing.T, w *world) {
	java := w.connect(t, w.startMachine(t), short)
	killWith(t, w.with(t, java, short), nil, []legacy{
		{"FairPlaces", placesOfJava},
		{"Reader", readerOfJava},
		{"Tokens", tokensOfJava},
		{"Locks", locksOfJava},
	})
}

// locksOfJava has Java keep its locks. We get them when it was killed and the leases have ended.
func locksOfJava(t *testing.T, b *both, _ *process) (after func(*testing.T)) {
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
	all := taken(channelapi.AllAsync(t.Context(), ours...))
	b.awaitRenewals(t, renewals, append(names, multi...)...) // so they are not free while Java lives
	for _, w := range waiters {
		w.waits(t)
	}
	pending(t, all)
	permits := thing{"permits", "orphan permits"}
	b.make(t, permits)
	b.has(t, permits, "j", short) // Redisson does not renew these, so they may be over at any time
	waiters = append(waiters, b.come(t, permits, "g", kept))
	return func(t *testing.T) {
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
}

// readerOfJava has Java read. When it was killed, readers of ours come and go, so the lock lives on. Nobody judges the
// dead reader. When ours have left, the dead reader goes away with the longest of their leases, and keeps no writer of
// Java out.
func readerOfJava(t *testing.T, b *both, _ *process) (after func(*testing.T)) {
	const name = "pages"
	b.java.lock("read", name, "main").lock(t, kept)
	agents := []*channelapi.Locks{b.ours, b.others}
	reads, err := agents[0].ReadLock(name).Acquire(t.Context())
	must(t, err)
	return func(t *testing.T) {
		for round := range 4 {
			next, err := agents[round%2].ReadLock(name).Acquire(t.Context())
			must(t, err)
			release(t, reads)
			reads = next
		}
		writer := b.startJava(t, time.Minute).lock("write", name, "j1")
		want(t, "Java's try beside ours", writer.tryLockOnce(t), false)
		release(t, reads)
		writer.lock(t, kept)
		writer.unlock(t)
	}
}

// tokensOfJava has Java have a token. Ours is greater.
func tokensOfJava(t *testing.T, b *both, _ *process) (after func(*testing.T)) {
	last := b.java.fenced("orphan tokens", "main").lockAndGetToken(t, kept)
	grant := taken(b.ours.FencedLock("orphan tokens").AcquireAsync(t.Context()))
	return func(t *testing.T) {
		g := receive(t, grant)
		must(t, g.Err())
		if int(g.Token()) <= last {
			t.Errorf("ours has token %d after %d of Java", g.Token(), last)
		}
		release(t, g)
	}
}

func TestP07JavaGetsWhatAKilledAgentHad(t *testing.T) {
	t.Parallel()
	javaGetsWhatAKilledAgentHad(t, single(t))
}

func javaGetsWhatAKilledAgentHad(t *testing.T, w *world) {
	killWith(t, w.with(t, w.startJava(t, short), time.Minute), w.startAgent(t, short), []legacy{
		{"FairPlace", placeOfOurs},
		{"FairPlaceThatIsOver", placeOfOursThatIsOver},
		{"Tokens", tokensOfOurs},
		{"PermitAndAnotherHolds", permitBesideHolder},
		{"PermitAndAnotherWaits", permitBesideWaiter},
		{"Locks", locksOfOurs},
	})
}

// locksOfOurs has an agent keep what it has. Java gets that when the agent was killed and the leases have ended.
// Redisson's semaphores have no leases: another agent of ours has to see that the permits are orphans.
func locksOfOurs(t *testing.T, b *both, agent *process) (after func(*testing.T)) {
	var locks []string
	var waiters []*someone
	for i, o := range append(
		orphans, struct{ had, wants string }{"permits", "permits"}, struct{ had, wants string }{"semaphore", "semaphore"},
	) {
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
	return func(t *testing.T) {
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
}

// tokensOfOurs has an agent have a token. That of Java is greater.
func tokensOfOurs(t *testing.T, b *both, agent *process) (after func(*testing.T)) {
	last, err := strconv.Atoi(agent.do(t, "main", "fenced.lock", "orphan tokens"))
	must(t, err)
	java := b.java.fenced("orphan tokens", "tokens")
	waits := java.send("lockAndGetToken", kept)
	return func(t *testing.T) {
		token, err := strconv.Atoi(value(t, waits))
		must(t, err)
		if token <= last {
			t.Errorf("Java has token %d after %d of ours", token, last)
		}
		java.unlock(t)
	}
}

// permitBesideHolder has an agent have a permit of Redisson's semaphore, which knows no leases. Any other agent of ours
// that has a permit gives it back to Java, though nobody asks it for anything.
func permitBesideHolder(t *testing.T, b *both, agent *process) (after func(*testing.T)) {
	w := thing{"semaphore", "orphan beside a holder"}
	_, err := b.ours.Semaphore(w.name).AddPermits(t.Context(), 1)
	must(t, err)
	holder := b.has(t, w, "g1", kept)
	see := permitOfOurs(t, b, agent, w)
	return func(t *testing.T) {
		see(t)
		holder.leaves(t)
	}
}

// permitBesideWaiter is the same with an agent that waits for some.
func permitBesideWaiter(t *testing.T, b *both, agent *process) (after func(*testing.T)) {
	w := thing{"semaphore", "orphan beside a waiter"}
	see := permitOfOurs(t, b, agent, w)
	ctx, cancel := context.WithCancel(t.Context())
	b.ours.Semaphore(w.name).AcquireAsync(ctx, 2) // more than there are
	b.awaitPermitPlaces(t, w.name, 1, 1)
	return func(t *testing.T) {
		see(t)
		cancel()
	}
}

// permitOfOurs adds a permit, which the agent takes, and has Java wait for one.
func permitOfOurs(t *testing.T, b *both, agent *process, w thing) (see func(*testing.T)) {
	_, err := b.others.Semaphore(w.name).AddPermits(t.Context(), 1)
	must(t, err)
	agent.do(t, "main", "semaphore.lock", w.name)
	thread := "j " + w.name
	waits := b.come(t, w, thread, kept)
	b.java.awaitSleep(t, thread)
	return func(t *testing.T) {
		waits.gets(t)
		waits.leaves(t)
	}
}

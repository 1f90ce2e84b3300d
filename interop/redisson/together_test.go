package redisson

import (
	"strconv"
	"testing"
	"time"

	"github.com/lockagent/lockagent/internal/redistest"
)

// group is some tests that share a server and a process of Java with other groups.
type group struct {
	title string
	run   func(*testing.T, *both)
}

// The tests with BothSides in their names are for every version of the servers. They wait for messages alone, so they
// last some seconds.
func TestP01P09P14P20BothSidesOnOneServer(t *testing.T) {
	t.Parallel()
	w := single(t)
	together(t, w, w.startJava(t, 30*time.Minute), everything)
}

// A Cluster could break what each kind does with its keys and its messages.
func TestP02P09P14P20BothSidesInACluster(t *testing.T) {
	t.Parallel()
	w := cluster(t)
	groups := messages // servers before Redis 7 send them to all nodes
	if redistest.Sharded(t) {
		groups = everything
	}
	together(t, w, w.startJava(t, 30*time.Minute), groups)
}

// What takes its time does the same on all servers.
func TestBothWithPatienceOnOneServer(t *testing.T) {
	t.Parallel()
	w := single(t)
	together(t, w, w.startJava(t, 30*time.Minute), []group{
		{"NoUpdateIsLost", noUpdateIsLost},
		{"WeLearnThatJavaForcedOurLock", javaForces},
		{"FairWaitersThatGiveUp", fairGiveUp},
		{"JavaForcesOurFairLock", javaForcesFair},
		{"JavaReadsOnAfterItHasWritten", javaDowngrades},
		{"JavaWritesWhileWeReadOnAndOn", javaWritesAmongReaders},
		{"SemaphoresThatJavaDeletes", deletedByJava},
	})
}

// messages are the tests that need messages to arrive.
var messages = []group{
	{"Wakes", wakes},
	{"Latch", sharedLatch},
	{"FairOrder", func(t *testing.T, b *both) { fairOrder(t, b, "orders") }},
}

var everything = []group{
	{"Wakes", wakes},
	{"NestedHolds", nestedHolds},
	{"NoReentry", noReentry},
	{"SeveralLocks", severalLocks},
	{"PlainLock", plainLock},
	{"FairLock", fairLock},
	{"FencedLock", fencedLock},
	{"SpinLock", spinLock},
	{"ReadWriteLock", readWriteLock},
	{"Semaphore", sharedSemaphore},
	{"Permits", sharedPermits},
	{"TooManyPermits", tooManyPermits},
	{"Latch", sharedLatch},
	{"P09OurFirstPlaceHasNoScore", firstPlaceHasNoScore},
	{"P14PermitsAreTakenAwayWhileJavaWaits", permitsTakenAway},
	{"P20FencedLockAmongSeveral", fencedAmongSeveral},
}

// together runs groups of tests. Each has an empty Redis, and an agent of ours of its own.
func together(t *testing.T, w *world, java *process, groups []group) {
	for _, g := range groups {
		step(t, g.title, func(t *testing.T) { g.run(t, w.with(t, java, 30*time.Minute)) })
		w.flush()
	}
}

// wakes has somebody of each side wait for somebody of the other side, for each kind. A message ends the wait.
func wakes(t *testing.T, b *both) {
	for _, kinds := range []struct{ has, wants string }{
		{"plain", "plain"},
		{"fair", "fair"},
		{"fenced", "fenced"},
		{"read", "write"},
		{"write", "read"},
		{"write", "write"},
		{"semaphore", "semaphore"},
		{"permits", "permits"},
	} {
		name := "wake " + kinds.has + " " + kinds.wants
		has, wants := thing{kinds.has, name}, thing{kinds.wants, name}
		b.make(t, has)
		t.Run("Java-"+kinds.has+"-"+kinds.wants, func(t *testing.T) {
			ear := b.hears.of(name)
			holder := b.has(t, has, "j has "+name, forever)
			var waiter *someone
			ear.awaitLook(t, func() { waiter = b.come(t, wants, "g", kept) })
			b.awaitListening(t, wants)
			waiter.waits(t)
			ear.needsMessage(t)
			if wants.kind == "fair" {
				b.keepPlace(t, name)
			}
			holder.leaves(t)
			waiter.gets(t)
			waiter.leaves(t)
		})
		t.Run("Go-"+kinds.has+"-"+kinds.wants, func(t *testing.T) {
			holder := b.has(t, has, "g1", forever)
			waiter := b.javaWaits(t, wants, "j wants "+name) // a thread of its own: one that waits in vain spoils no other kind
			if b.remaining(name) > 0 {                       // a semaphore has no end
				b.wouldLast(t, name)
			}
			holder.leaves(t)
			waiter.gets(t)
			waiter.leaves(t)
		})
	}
}

// keepPlace keeps the only place at a fair lock for an hour. Without looks it would be gone after some seconds.
func (b *both) keepPlace(t *testing.T, name string) {
	t.Helper()
	place, hour := b.awaitPlaces(t, name, 1), strconv.FormatInt(time.Hour.Milliseconds(), 10)
	for _, key := range []string{"redisson_lock_timeout", "lockagent_places"} {
		b.nodeOf(name).Do("ZINCRBY", keyOf(key, name), hour, place)
	}
}

// awaitListening waits until somebody of ours hears when a thing is free.
func (b *both) awaitListening(t *testing.T, w thing) {
	t.Helper()
	channel := map[string]string{
		"plain": "redisson_lock__channel", "fenced": "redisson_lock__channel",
		"read": "redisson_rwlock", "write": "redisson_rwlock",
		"semaphore": "redisson_sc", "permits": "redisson_sc",
	}[w.kind]
	if w.kind == "fair" {
		b.awaitHearing(t, w.name, b.awaitPlaces(t, w.name, 1))
		return
	}
	b.awaitSubscribers(t, keyOf(channel, w.name), 1)
}

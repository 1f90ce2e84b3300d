package redisson

import (
	"strings"
	"testing"

	"github.com/lockagent/lockagent/internal/waittest"
)

// old is a server that we share with the last Redisson 3.x.
func old(t *testing.T) *world {
	t.Helper()
	w := single(t)
	w.redisson = "redisson3"
	return w
}

func TestBothSidesWithAnOldRedisson(t *testing.T) {
	t.Parallel()
	together(t, old(t), []group{{"Wakes", wakes}, {"FairLock", fairLock}, {"ReadWriteLock", readWriteLock}, {"Latch", sharedLatch}})
}

// Redisson 3.44 to 3.52 does not renew the keys of a reader that holds the lock twice. They end, but the reader does not: our
// release must not end it either.
func TestP06AnOldJavaReadsBesideGo(t *testing.T) {
	t.Parallel()
	const name = "pages"
	b := old(t).start(t, 2*short) // a busy machine may keep Java from a renewal for a while
	java := b.has(t, thing{"read", name}, "j1", kept)
	b.has(t, thing{"read", name}, "j1", kept)
	ours := b.has(t, thing{"read", name}, "g1", kept)
	waittest.Until(t, "the end of Java's keys", func() bool {
		keys := 0
		for _, key := range b.nodes[0].Do("KEYS", "*").([]any) {
			if strings.Contains(key.(string), ":rwlock_timeout:") {
				keys++
			}
		}
		return keys == 1 // ours
	})
	ours.leaves(t)
	node := b.nodes[0]
	last, seen := b.remaining(name), 0
	waittest.Until(t, "renewals by Java", func() bool { // for longer than a lease
		now := b.remaining(name)
		if now > last {
			seen++
		}
		last = now
		return seen >= renewals || node.Do("EXISTS", name) == any(int64(0))
	})
	want(t, "holds of Java", b.java.lock("read", name, "j1").holdCount(t), 2)
	want(t, "another of ours can read", b.tries(t, thing{"read", name}, "g"), true)
	for _, who := range []string{"g", "j2"} {
		want(t, who+" can write", b.tries(t, thing{"write", name}, who), false)
	}
	java.leaves(t) // to this Redisson that is the end of both holds, because the keys are gone
	b.free(t, name, true, true)
	b.nothingIsLeft(t, name)
}

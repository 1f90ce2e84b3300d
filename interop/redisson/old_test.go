package redisson

import (
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent/internal/waittest"
)

// old is a server that we share with the last Redisson 3.x.
func old(t *testing.T) *world {
	t.Helper()
	w := single(t)
	w.redisson = "redisson3"
	return w
}

func TestBesideAnOldRedisson(t *testing.T) {
	t.Parallel()
	w := old(t)
	together(t, w, w.startJava(t, 30*time.Minute), []group{
		{"Wakes", wakes},
		{"FairLock", fairLock},
		{"ReadWriteLock", readWriteLock},
		{"Latch", sharedLatch},
	})
}

// Redisson 3.44 to 3.52 does not renew the keys of a reader that holds the lock twice. They end, but the reader does
// not: our release must not end it either. Here the keys are deleted instead.
func TestP06AnOldJavaReadsBesideGo(t *testing.T) {
	t.Parallel()
	b := old(t).start(t, 30*time.Minute)
	oldReader(t, b, func(keys []string) { b.nodes[0].Do(append([]string{"DEL"}, keys...)...) })
}

// oldReader has Java hold a lock twice as a reader, beside ours. Its keys end, and then ours leaves.
func oldReader(t *testing.T, b *both, end func(keys []string)) {
	const name = "pages"
	node := b.nodes[0]
	timeouts := func() (keys []string) {
		for _, key := range node.Do("KEYS", "*").([]any) {
			if strings.Contains(key.(string), ":rwlock_timeout:") {
				keys = append(keys, key.(string))
			}
		}
		return keys
	}
	java := b.has(t, thing{"read", name}, "j1", kept)
	b.has(t, thing{"read", name}, "j1", kept)
	theirs := timeouts()
	ours := b.has(t, thing{"read", name}, "g1", kept)
	end(theirs)
	waittest.Until(t, "the end of Java's keys", func() bool { return len(timeouts()) == 1 })
	ours.leaves(t)
	want(t, "holds of Java", b.java.lock("read", name, "j1").holdCount(t), 2)
	want(t, "another of ours can read", b.tries(t, thing{"read", name}, "g"), true)
	for _, who := range []string{"g", "j2"} {
		want(t, who+" can write", b.tries(t, thing{"write", name}, who), false)
	}
	java.leaves(t) // to this Redisson that is the end of both holds, because the keys are gone
	b.free(t, name, true, true)
	b.nothingIsLeft(t, name)
}

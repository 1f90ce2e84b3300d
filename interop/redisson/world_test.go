package redisson

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/redisstore"
)

// world is the Redis that both sides share.
type world struct {
	mode   string // of the driver: "single" or "cluster"
	url    string
	nodes  []*redistest.Server
	nodeOf func(key string) *redistest.Server
	numsub string // the subcommand of PUBSUB that counts the subscribers
}

func single(t *testing.T) *world {
	t.Helper()
	requireJava(t)
	s := redistest.Start(t)
	return &world{
		mode: "single", url: s.URL(), nodes: []*redistest.Server{s}, numsub: "NUMSUB",
		nodeOf: func(string) *redistest.Server { return s },
	}
}

// cluster has its messages sharded.
func cluster(t *testing.T) *world {
	t.Helper()
	requireJava(t)
	c := redistest.StartCluster(t, 3)
	return &world{mode: "cluster", url: c.URL(), nodes: c.Nodes, nodeOf: c.NodeOf, numsub: "SHARDNUMSUB"}
}

// open opens locks of ours, whose kept leases have a length.
func (w *world) open(t *testing.T, lease time.Duration) *channelapi.Locks {
	t.Helper()
	store, err := redisstore.Open(t.Context(), w.url)
	must(t, err)
	locks, err := channelapi.New(channelapi.Config{Store: store, Lease: lease})
	must(t, err)
	t.Cleanup(func() {
		must(t, locks.Close())
		must(t, store.Close())
	})
	return locks
}

// remaining is what is left of the lease of a lock, as Redis says. It is negative if there is no
// lock, or no end.
func (w *world) remaining(key string) time.Duration {
	return time.Duration(w.nodeOf(key).Do("PTTL", key).(int64)) * time.Millisecond
}

// holder is the only field of a lock, and its count.
func (w *world) holder(t *testing.T, key string) (field, count string) {
	t.Helper()
	fields := w.nodeOf(key).Do("HGETALL", key).([]any)
	if len(fields) != 2 {
		t.Fatalf("the lock has the fields %v, want one", fields)
	}
	return fields[0].(string), fields[1].(string)
}

// awaitSubscriber waits until somebody listens to the releases of a plain lock.
func (w *world) awaitSubscriber(t *testing.T, name string) {
	t.Helper()
	channel := "redisson_lock__channel:" + name
	if !strings.Contains(name, "{") {
		channel = "redisson_lock__channel:{" + name + "}"
	}
	w.awaitSubscribers(t, name, channel, 1)
}

// awaitSubscribers waits until a channel of a name has as many subscribers.
func (w *world) awaitSubscribers(t *testing.T, name, channel string, n int64) {
	t.Helper()
	redistest.Eventually(t, "subscribers of "+channel, func() bool {
		return w.nodeOf(name).Do("PUBSUB", w.numsub, channel).([]any)[1].(int64) >= n
	})
}

// awaitRenewals waits until the lease of a lock was renewed for a number of times. It checks that
// the holder stays the same.
func (w *world) awaitRenewals(t *testing.T, name string, times int) {
	t.Helper()
	field, _ := w.holder(t, name)
	last := w.remaining(name)
	redistest.Eventually(t, "renewals", func() bool {
		now := w.remaining(name)
		if now > last {
			times--
		}
		last = now
		return times == 0
	})
	if after, _ := w.holder(t, name); after != field {
		t.Errorf("the holder was %s, and is %s", field, after)
	}
}

// hold acquires a lock that nobody holds. The store may keep it for outsiders for a moment, if some
// have just waited: then there is no holder.
func hold(t *testing.T, lock channelapi.AnyLock) channelapi.Grant {
	t.Helper()
	var g channelapi.Grant
	redistest.Eventually(t, "the store to stop keeping the lock", func() bool {
		var err error
		g, err = lock.TryAcquire(t.Context())
		if held, is := errors.AsType[*lockagent.HeldError](err); is && held.Holder == "" {
			return false
		}
		must(t, err)
		return true
	})
	return g
}

// release releases a grant that must still be held.
func release(t *testing.T, g channelapi.Grant) {
	t.Helper()
	must(t, g.Release(t.Context()))
}

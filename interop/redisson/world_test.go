package redisson

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore"
)

// world is the Redis that both sides share.
type world struct {
	mode     string // of the driver: "single" or "cluster"
	redisson string // a profile of the driver: another version of Redisson
	url      string
	nodes    []*redistest.Server
	nodeOf   func(key string) *redistest.Server
	counts   []string // what PUBSUB is asked for the subscribers of a channel
}

func single(t *testing.T, opts ...redistest.Option) *world {
	t.Helper()
	requireJava(t)
	s := redistest.Start(t, opts...)
	return &world{
		mode: "single", redisson: os.Getenv(profileVariable), url: s.URL(), nodes: []*redistest.Server{s},
		nodeOf: func(string) *redistest.Server { return s }, counts: counts(t),
	}
}

// cluster has its messages sharded, unless the servers are older than Redis 7.
func cluster(t *testing.T, opts ...redistest.Option) *world {
	t.Helper()
	requireJava(t)
	c := redistest.StartCluster(t, 3, opts...)
	return &world{
		mode: "cluster", redisson: os.Getenv(profileVariable), url: c.URL(), nodes: c.Nodes, nodeOf: c.NodeOf,
		counts: counts(t),
	}
}

// counts are the questions for the subscribers of a channel that the servers know.
func counts(t *testing.T) []string {
	t.Helper()
	if redistest.Sharded(t) {
		return []string{"NUMSUB", "SHARDNUMSUB"}
	}
	return []string{"NUMSUB"}
}

// step runs a part of a test. The rest makes no sense if it fails: locks may be held still, so others would wait in
// vain.
func step(t *testing.T, title string, run func(*testing.T)) {
	t.Helper()
	if !t.Run(title, run) {
		t.FailNow()
	}
}

// flush removes all keys.
func (w *world) flush() {
	for _, node := range w.nodes {
		node.Do("FLUSHALL")
	}
}

// open opens locks of ours, whose kept leases have a length.
func (w *world) open(t *testing.T, lease time.Duration) *channelapi.Locks {
	t.Helper()
	return w.locks(t, w.store(t), lease)
}

// store opens a store of ours.
func (w *world) store(t *testing.T) lockagent.Store {
	t.Helper()
	store, err := redisstore.Config{DialTimeout: time.Minute, GraceFirst: redisstore.NoGraceFirst}.Open(t.Context(), w.url)
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	return store
}

// locks opens locks over a store. They do not rest: the tests look at what Redis has after each step. See rest_test.go.
func (w *world) locks(t *testing.T, store lockagent.Store, lease time.Duration) *channelapi.Locks {
	t.Helper()
	locks, err := channelapi.New(channelapi.Config{Store: store, Lease: lease, NoRest: true})
	must(t, err)
	t.Cleanup(func() { must(t, locks.Close()) })
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
	w.awaitSubscribers(t, keyOf("redisson_lock__channel", name), 1)
}

// awaitSubscribers waits until a channel has as many subscribers.
func (w *world) awaitSubscribers(t *testing.T, channel string, n int64) {
	t.Helper()
	waittest.Until(t, "subscribers of "+channel, func() bool {
		var all int64
		for _, node := range w.nodes {
			for _, count := range w.counts {
				all += node.Do("PUBSUB", count, channel).([]any)[1].(int64)
			}
		}
		return all >= n
	})
}

// awaitRenewals waits until the leases of some locks were renewed for a number of times. It checks that
// the holders stay the same.
func (w *world) awaitRenewals(t *testing.T, times int, names ...string) {
	t.Helper()
	holders, last, seen := make([]string, len(names)), make([]time.Duration, len(names)), make([]int, len(names))
	fields := func(name string) string { return fmt.Sprint(w.nodeOf(name).Do("HKEYS", name)) }
	for i, name := range names {
		holders[i], last[i] = fields(name), w.remaining(name)
	}
	waittest.Until(t, "renewals", func() bool {
		for i, name := range names {
			now := w.remaining(name)
			if now > last[i] {
				seen[i]++
			}
			last[i] = now
		}
		return slices.Min(seen) >= times
	})
	for i, name := range names {
		want(t, "the holders of "+name, fields(name), holders[i])
	}
}

// wouldLast checks that the lease would last beyond the end of the tests. So whoever is granted
// the lock next has not waited for its end.
func (w *world) wouldLast(t *testing.T, name string) {
	t.Helper()
	if left := w.remaining(name); left < forever/2 {
		t.Fatalf("%v are left of the lease", left)
	}
}

// isKept says whether a try was refused because the store keeps a lock from agents for a moment: if outsiders have just
// waited, or if it is the turn of those that poll. In such a turn nobody joins the readers of a lock, and they are told
// as holders. Leases last longer in these tests.
func isKept(err error) bool {
	held, is := errors.AsType[*lockagent.HeldError](err)
	const turn = 150 * time.Millisecond
	return is && (held.Holder == "" || held.Left > 0 && held.Left <= turn)
}

// hold acquires a lock that nobody holds.
func hold(t *testing.T, lock channelapi.AnyLock) channelapi.Grant {
	t.Helper()
	var g channelapi.Grant
	waittest.Until(t, "the store to stop keeping the lock", func() bool {
		var err error
		g, err = lock.TryAcquire(t.Context())
		if isKept(err) {
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

// hearing is a store that knows what an agent has heard of each lock.
type hearing struct {
	lockagent.Store
	ears sync.Map // by name
}

// Unwrap is for [lockagent.Layer].
func (h *hearing) Unwrap() lockagent.Store { return h.Store }

// ear is what an agent has heard of a lock.
type ear struct {
	listens atomic.Bool
	looked  atomic.Int64 // attempts in vain while it listened

	mu       sync.Mutex // protects what follows
	underWay int        // attempts
	waits    bool       // no attempt begins before a message comes
	put      []func()   // attempts that were put off until then
}

func (h *hearing) of(name string) *ear {
	e, _ := h.ears.LoadOrStore(name, new(ear))
	return e.(*ear)
}

func (h *hearing) Subscribe(name lockagent.Name, kind lockagent.LockKind, wake func()) (cancel func()) {
	e := h.of(string(name))
	end := h.Store.Subscribe(name, kind, func() {
		e.listens.Store(true)
		e.hear()
		wake()
	})
	return func() {
		e.listens.Store(false)
		end()
	}
}

func (h *hearing) Acquire(ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error)) {
	e := h.of(string(req.Name))
	e.look(func() {
		listens := e.listens.Load()
		h.Store.Acquire(ctx, req, func(reply lockagent.AcquireReply, err error) {
			e.over()
			done(reply, err)
			if listens && err == nil && !reply.Granted {
				e.looked.Add(1)
			}
		})
	})
}

func (h *hearing) Listen(agent lockagent.AgentID, hear func(lockagent.Message)) (cancel func()) {
	messages, _ := lockagent.Layer[lockagent.Messages](h.Store)
	return messages.Listen(agent, func(m lockagent.Message) {
		if m.LockKind == lockagent.FairLock && m.Kind != lockagent.MessagesMissed {
			h.of(string(m.Name)).hear()
		}
		hear(m)
	})
}

// look begins an attempt, or puts it off.
func (e *ear) look(begin func()) {
	e.mu.Lock()
	if e.waits {
		e.put = append(e.put, begin)
		e.mu.Unlock()
		return
	}
	e.underWay++
	e.mu.Unlock()
	begin()
}

// over says that an attempt is over.
func (e *ear) over() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.underWay--
}

// hear takes a message, which wakes ours or is for a place in the queue of a fair lock.
func (e *ear) hear() {
	e.mu.Lock()
	put := e.put
	e.waits, e.put = false, nil
	e.underWay += len(put)
	e.mu.Unlock()
	for _, begin := range put {
		begin()
	}
}

// awaitLook has something begin a wait, and returns when ours has looked in vain while it listened.
func (e *ear) awaitLook(t *testing.T, begin func()) {
	t.Helper()
	before := e.looked.Load()
	begin()
	waittest.Until(t, "a look of ours in vain", func() bool { return e.looked.Load() > before })
}

// needsMessage puts off each look of ours from now on until a message has come. A waiter of ours looks every few
// seconds, and could get by a look what it waits for. Now only a message can wake the waiter.
func (e *ear) needsMessage(t *testing.T) {
	t.Helper()
	t.Cleanup(e.hear) // the agent ends when its looks are over
	e.mu.Lock()
	e.waits = true
	e.mu.Unlock()
	waittest.Until(t, "the looks under way to be over", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.underWay == 0
	})
}

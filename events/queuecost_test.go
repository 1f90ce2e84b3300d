package events

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// heapOf returns how many bytes of memory are in use more after fill, as long as what it returns is.
func heapOf(fill func() any) (bytes int64) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	kept := fill()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(kept)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc)
}

// TestMemoryOfAFullQueue is what docs/performance.md and [Config] say of it.
func TestMemoryOfAFullQueue(t *testing.T) {
	owner := func(i int) lockagent.Owner {
		return lockagent.Owner(fmt.Sprintf("6f1c2d0e-8a35-4e68-ac9e-8f39a2d0193c/%d", i))
	}
	for name, test := range map[string]struct {
		event       func(i int) lockagent.Event
		least, most int64 // bytes for each record
	}{
		"OfOneLock": {func(i int) lockagent.Event {
			return lockagent.Event{Kind: lockagent.EventRequested, Lock: "orders/42", Owner: owner(i)}
		}, 200, 300},
		"OfOwnLocks": {func(i int) lockagent.Event {
			return lockagent.Event{
				Kind: lockagent.EventQueued, Lock: lockagent.Name(fmt.Sprintf("billing/invoices/%d", i)), Owner: owner(i), Store: "redis-1", Incarnation: "i1",
				Waiters: 1, Holder: string(owner(-i)),
			}
		}, 550, 750},
	} {
		t.Run(name, func(t *testing.T) {
			var q queue
			bytes := heapOf(func() any {
				q = newQueue(DefaultQueueSize, time.Hour)
				for i := range DefaultQueueSize {
					e := test.event(i)
					e.Request = uint64(i + 1)
					q.add(0, &e)
				}
				return &q
			}) / DefaultQueueSize
			if q.size != DefaultQueueSize || bytes < test.least || bytes > test.most {
				t.Errorf("%d records of %d bytes each, not between %d and %d", q.size, bytes, test.least, test.most)
			}
			t.Logf("%d bytes each", bytes)
		})
	}
}

// TestLongTextsAreNotKept: of a text that is too long the queue keeps what will be sent, and not the rest.
func TestLongTextsAreNotKept(t *testing.T) {
	const long, records = 100_000, 200
	bytes := heapOf(func() any {
		p := unstarted(Config{QueueSize: records, Linger: time.Second})
		for i := range records {
			p.Record(context.Background(), lockagent.Event{Kind: lockagent.EventRequested, Lock: "orders/42", Request: uint64(i + 1), Err: strings.Repeat("no reply; ", long/10)})
		}
		return p
	})
	if bytes > records*long/10 {
		t.Errorf("%d bytes for %d records with texts of %d", bytes, records, long)
	}
}

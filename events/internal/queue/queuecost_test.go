package queue

import (
	"fmt"
	"runtime"
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

// TestMemoryOfAFullQueue is what docs/performance.md and [natslog.Config] say of it.
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
				Kind: lockagent.EventQueued, Lock: lockagent.Name(fmt.Sprintf("billing/invoices/%d", i)), Owner: owner(i),
				Store: "redis-1", Incarnation: "i1",
				Waiters: 1, Holder: string(owner(-i)),
			}
		}, 550, 750},
	} {
		t.Run(name, func(t *testing.T) {
			var q Queue
			bytes := heapOf(func() any {
				q = New((64 << 10), time.Hour)
				for i := range 64 << 10 {
					e := test.event(i)
					e.Request = uint64(i + 1)
					q.Add(0, &e)
				}
				return &q
			}) / (64 << 10)
			if q.Size != (64<<10) || bytes < test.least || bytes > test.most {
				t.Errorf("%d records of %d bytes each, not between %d and %d", q.Size, bytes, test.least, test.most)
			}
			t.Logf("%d bytes each", bytes)
		})
	}
}

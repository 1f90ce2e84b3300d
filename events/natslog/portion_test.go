package natslog

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/eventstest"
	"github.com/lockagent/lockagent/events/internal/queue"
)

// withRecords returns a publisher without a sender with n records in its queue, each of a lock of its own, which may
// hold most.
func withRecords(t *testing.T, n, most int) *Publisher {
	t.Helper()
	cfg := Config{
		Connection: Connection{InProcess: &link{}}, Agent: eventstest.Agent, Heartbeat: time.Hour, QueueSize: most,
	}
	if err := cfg.check(); err != nil {
		t.Fatal(err)
	}
	p := unstarted(cfg)
	for i := range n {
		p.Record(t.Context(), grantOf(i))
	}
	return p
}

func grantOf(i int) lockagent.Event {
	return eventstest.Step(lockagent.EventGranted, lockagent.Name(fmt.Sprint("lock/", i)), uint64(i+1))
}

// leaves is what leaves a queue of n records at once, with something that happens behind the first portion.
func leaves(t *testing.T, p *Publisher, happens func()) (items []*queue.Item, missing events.Drops) {
	t.Helper()
	times := 0
	p.between = func() {
		if times++; times == 1 {
			happens()
		}
	}
	items, missing, _ = p.leave(time.Hour, nil)
	if times == 0 {
		t.Fatal("all left at once")
	}
	return items, missing
}

func TestAllPortionsLeave(t *testing.T) {
	for _, n := range []int{portion, portion + 1, 3*portion + 7} {
		p := withRecords(t, n, 1<<16)
		if items, _, _ := p.leave(time.Hour, nil); len(items) != n || p.queue.Size != 0 {
			t.Errorf("%d of %d records left", len(items), n)
		}
	}
}

// When the oldest record is due, those that are complete leave with it, however young they are.
func TestYoungPortionsLeave(t *testing.T) {
	p := withRecords(t, 0, 1<<16)
	const n = 2 * portion
	for i := range n {
		again := eventstest.Step(lockagent.EventReentered, "a", uint64(i+1))
		p.queue.Add(time.Duration(i)*time.Microsecond, &again)
	}
	if items, _, _ := p.leave(DefaultLinger, nil); len(items) != n {
		t.Errorf("%d of %d records left", len(items), n)
	}
}

// What has become complete between two portions leaves as it is then. What was recorded meanwhile and may still become
// fewer stays.
func TestFactsBetweenPortions(t *testing.T) {
	const n = 2 * portion
	p := withRecords(t, n, 1<<16)
	items, _ := leaves(t, p, func() {
		release := eventstest.Step(lockagent.EventReleased, "lock/100", 101)
		p.Record(t.Context(), release)
		young := grantOf(n)
		young.Time = p.began.Add(time.Hour)
		p.Record(t.Context(), young)
	})
	if len(items) != n || p.queue.Size != 1 {
		t.Fatalf("%d left, %d are queued", len(items), p.queue.Size)
	}
	for i, it := range items {
		want := lockagent.EventGranted
		if i == 100 {
			want = lockagent.EventHeld
		}
		if it.Kind != want || it.Request != uint64(i+1) {
			t.Errorf("record %d: %v of request %d", i, it.Kind, it.Request)
		}
	}
}

// A sign of life counts the holds that go on where it stands. So a hold that ends when the sign waits in the queue is
// two records.
func TestASignOfLifeBetweenPortions(t *testing.T) {
	const n = 2 * portion
	p := withRecords(t, n, 1<<16)
	p.pulse.Next = 0
	items, _ := leaves(t, p, func() { p.Record(t.Context(), eventstest.Step(lockagent.EventReleased, "lock/100", 101)) })
	items, _, _ = p.leave(time.Hour+DefaultLinger, items)
	open := 0
	for _, it := range items {
		switch it.Kind {
		case lockagent.EventGranted:
			open++
		case lockagent.EventReleased:
			open--
		case lockagent.EventAlive:
			if it.Count != open {
				t.Errorf("the sign counts %d holds, and the records before it have %d", it.Count, open)
			}
		default:
			t.Errorf("a record is %v", it.Kind)
		}
	}
	if len(items) != n+2 || open != n-1 {
		t.Errorf("%d records left, with %d holds", len(items), open)
	}
}

// What is dropped between two portions is told before what is younger: so nothing more leaves before that.
func TestDropsBetweenPortions(t *testing.T) {
	const most = 1024
	p := withRecords(t, most, most)
	items, missing := leaves(t, p, func() {
		for i := range portion + 1 {
			p.Record(t.Context(), grantOf(most+i))
		}
	})
	if len(items) != portion || missing != (events.Drops{}) {
		t.Errorf("%d records left, %v are told as dropped", len(items), missing)
	}
	items, missing, _ = p.leave(time.Hour, nil)
	if missing[lockagent.EventGranted] != 1 || len(items) < most-1 || items[0].Request != portion+2 {
		t.Errorf("%v are told as dropped, and then %d records leave", missing, len(items))
	}
}

// A caller that flushes between two portions waits for what has left already.
func TestFlushBetweenPortions(t *testing.T) {
	p := withRecords(t, portion, 1<<16) // the queue is empty behind the first portion
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	leaves(t, p, func() {
		if err := p.Flush(ctx); err == nil {
			t.Error("nothing is in the stream yet")
		}
	})
}

// No more leaves than the outbox has room for.
func TestPortionsAndRoom(t *testing.T) {
	p := withRecords(t, 3*portion, 1<<16)
	const room = portion + 5
	p.outbox.messages = make([]*queue.Message, outboxMessages-room)
	if items, _, _ := p.leave(time.Hour, nil); len(items) != room || p.queue.Size != 3*portion-room {
		t.Errorf("%d records left, %d are queued", len(items), p.queue.Size)
	}
}

package redisstore_test

import (
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/storetest"
)

// Another program changes the number of free permits, and tells nobody. The first waiter that asks sees to it that all
// get what is theirs.
func TestAWaiterAsksAfterTheNumberHasChanged(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := &pool{t, server, open(t, server.URL()), lockagent.Permits}
	messages := storetest.Listen(t, p.store, agentA)
	hears := func(kind lockagent.MessageKind, number uint64) {
		t.Helper()
		if told, ok := messages.Await(kind, "pool", p.wish(number, 1).Tenure); !ok || told.AskAfter != 0 {
			t.Fatalf("tenure %d was told %+v", number, told)
		}
	}
	p.change(lockagent.TrySetPermits, 5, "set")
	p.take(1, 2)
	queue(t, p.store, p.wish(2, 4))
	queue(t, p.store, p.wish(3, 1))
	server.Do("DECRBY", "pool", "2")
	p.isTooMany(2, 4)
	hears(lockagent.MessageStandby, 3)
	p.take(3, 1)
	p.counts(0, 3)

	server.Do("INCRBY", "pool", "1")
	queue(t, p.store, p.wish(2, 4)) // it is not too large any more, but one is free
	p.releases(1, true)
	p.counts(3, 1)
	p.releases(3, true)
	hears(lockagent.MessagePassed, 2)
	p.counts(0, 4)
}

// A place that is not the first one is lost when its own request asks.
func TestAPlaceBehindOthersIsLost(t *testing.T) {
	server := redistest.Start(t)
	p := &pool{t, server, open(t, server.URL()), lockagent.Permits}
	storetest.Listen(t, p.store, agentA)
	p.change(lockagent.TrySetPermits, 5, "set")
	p.take(1, 5)
	queue(t, p.store, p.wish(2, 1))
	queue(t, p.store, p.wish(3, 4))
	server.Do("DECRBY", "pool", "2")
	p.isTooMany(3, 4)
	queue(t, p.store, p.wish(2, 1))
}

// isTooMany expects to be refused n permits, and to get no place.
func (p *pool) isTooMany(number uint64, n int) {
	p.t.Helper()
	req := p.wish(number, n)
	req.Queue = true
	if r, err := storetest.Acquire(p.t, p.store, req); err != nil || r.Granted || r.Queued {
		p.t.Fatalf("Acquire = %+v, %v; want it held, and no place", r, err)
	}
	if place := p.server.Do("ZSCORE", "lockagent_queue:{pool}", req.Tenure.String()); place != nil {
		p.t.Errorf("there is a place, of %v", place)
	}
}

// Somebody deletes the semaphore, and tells nobody. The first waiter that asks tells the others.
func TestAWaiterTellsOfADeletion(t *testing.T) {
	pools(t, func(p *pool) {
		storetest.Listen(p.t, p.store, agentA)
		p.take(1, 5)
		queue(p.t, p.store, p.wish(2, 1))
		p.server.Do("DEL", "pool", "{pool}:timeout")
		wakes := p.watches()
		req := p.wish(2, 1)
		req.Queue = true
		if r, err := storetest.Acquire(p.t, p.store, req); err != nil || !r.NotSet || r.Queued {
			p.t.Errorf("Acquire = %+v, %v; want NotSet", r, err)
		}
		await(p.t, wakes)
	})
}

// watches returns a channel of wake-ups, when the subscription stands.
func (p *pool) watches() <-chan struct{} {
	wakes := make(chan struct{}, 1)
	cancel := p.store.Subscribe("pool", p.kind, func() {
		select {
		case wakes <- struct{}{}:
		default:
		}
	})
	p.t.Cleanup(cancel)
	<-wakes
	return wakes
}

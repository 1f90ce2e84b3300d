package redisstore_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/storetest"
)

// Another program changes the number of free permits, and tells nobody. The first waiter that asks sees to it that all get what is theirs.
func TestAWaiterAsksAfterTheNumberHasChanged(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := &pool{t, server, open(t, server.URL()), lockagent.Permits}
	messages := storetest.Listen(t, p.store, agentA)
	passed := func(number uint64) {
		t.Helper()
		if _, ok := messages.Await(lockagent.MessagePassed, "pool", p.wish(number, 1).Tenure); !ok {
			t.Fatalf("tenure %d was passed nothing", number)
		}
	}
	p.change(lockagent.TrySetPermits, 5, "set")
	p.take(1, 2)
	queue(t, p.store, p.wish(2, 4))
	queue(t, p.store, p.wish(3, 1))
	server.Do("DECRBY", "pool", "2")
	queue(t, p.store, p.wish(2, 4)) // now it is too large
	passed(3)
	p.counts(0, 3)

	queue(t, p.store, p.wish(12, 4)) // as a text it sorts before the other
	p.releases(1, true)
	p.releases(3, true)
	p.counts(3, 0)
	server.Do("INCRBY", "pool", "1")
	queue(t, p.store, p.wish(12, 4)) // it is as large as the other, which came first
	passed(2)
	p.counts(0, 4)
	p.releases(2, true)
	passed(12)

	queue(t, p.store, p.wish(13, 5))
	queue(t, p.store, p.wish(14, 1))
	server.Do("INCRBY", "pool", "1")
	queue(t, p.store, p.wish(14, 1)) // the other is not too large any more, and came first
	p.releases(12, true)
	passed(13)
	p.releases(13, true)
	passed(14)
	p.releases(14, true)
	p.take(4, 4)

	// The wish of a tenure that is passed over is evicted.
	queue(t, p.store, p.wish(5, 6))
	server.Do("DEL", "lockagent_wanted:{pool}")
	p.change(lockagent.AddPermits, 1, "more")
	queue(t, p.store, p.wish(5, 6))
	p.releases(4, true)
	passed(5)
	p.counts(0, 6)
}

// Places that are passed over stand behind all others. A new place is before them, and removes a dead one just before it.
func TestADeadPlaceBeforeThoseThatArePassedOver(t *testing.T) {
	const places = "lockagent_queue:{pool}"
	server := redistest.Start(t)
	p := &pool{t, server, open(t, server.URL()), lockagent.Permits}
	storetest.Listen(t, p.store, agentA)
	p.change(lockagent.TrySetPermits, 5, "set")
	p.take(1, 5)
	for number := range uint64(6) {
		n := 1
		if number >= 3 {
			n = 9 // more than there are
		}
		queue(t, p.store, p.wish(number+2, n))
	}
	third, _ := server.Do("ZSCORE", places, fmt.Sprint(p.wish(4, 1).Tenure)).(string)
	at, err := strconv.ParseFloat(third, 64)
	if err != nil {
		t.Fatalf("the third place is of %q", third)
	}
	dead := string(agentB) + ":7"
	server.Do("ZADD", places, strconv.FormatFloat(at+1, 'f', 0, 64), dead)
	queue(t, p.store, p.wish(8, 1))
	if score := server.Do("ZSCORE", places, dead); score != nil {
		t.Errorf("the dead place is still there, with %v", score)
	}
	if n := server.Do("ZCARD", places); n != int64(7) {
		t.Errorf("%v places, want 7", n)
	}
}

// More tenures are passed over than one script gives their places back. All are served in the end, one after the other.
func TestManyThatArePassedOver(t *testing.T) {
	const waiters = 150
	server := redistest.Start(t)
	p := &pool{t, server, open(t, server.URL()), lockagent.Permits}
	messages := storetest.Listen(t, p.store, agentA)
	p.change(lockagent.TrySetPermits, 1, "set")
	for number := range uint64(waiters) {
		queue(t, p.store, p.wish(number+1, 2))
	}
	p.change(lockagent.AddPermits, 1, "more")
	for served := make(map[uint64]bool); len(served) < waiters; {
		before := len(served)
		for number := range uint64(waiters) {
			if _, passed := messages.Take(lockagent.MessagePassed, "pool", p.wish(number+1, 2).Tenure); passed {
				served[number] = true
				p.releases(number+1, true)
			}
		}
		if len(served) > before {
			continue
		}
		waittest.Receive(t, "the next tenures to be served", messages.C)
	}
	p.counts(2, 0)
}

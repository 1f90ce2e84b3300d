package redisstore_test

import (
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/redisstore"
	"github.com/lockagent/lockagent/storetest"
)

// queue asks for a lock that is held, and gets a place.
func queue(t *testing.T, s lockagent.Store, req lockagent.AcquireRequest) {
	t.Helper()
	req.Queue = true
	if reply, err := storetest.Acquire(t, s, req); err != nil || reply.Granted || !reply.Queued {
		t.Fatalf("Acquire(%q) = %+v, %v; want it queued", req.Name, reply, err)
	}
}

func TestLayoutOfAQueue(t *testing.T) {
	for name, suffix := range map[lockagent.Name]string{"orders 42": ":{orders 42}", "a{b}c": "::a{b}c"} {
		server := redistest.Start(t)
		store, other := open(t, server.URL()), open(t, server.URL())
		sub := storetest.Subscribe(t, other, name)
		ours, theirs := wish(name, agentA, 1), wish(name, agentB, 7)
		theirs.Tokens = 5
		granted := acquire(t, store, ours)
		queue(t, other, theirs)
		order, places := "lockagent_queue"+suffix, "lockagent_places"+suffix
		if got, want := server.Do("ZRANGE", order, "0", "-1"), []any{theirs.Tenure.String()}; !reflect.DeepEqual(got, want) {
			t.Errorf("the queue is %q, want %q", got, want)
		}
		if got, of := server.Do("HGET", places, theirs.Tenure.String()).(string); !of || !strings.HasPrefix(got, "5:") {
			t.Errorf("the place is %q, want 5 tokens of a store", got)
		}
		for _, key := range []string{order, places, "lockagent_queues"} {
			if left := server.Do("PTTL", key).(int64); left <= time.Minute.Milliseconds() || left > redisstore.QueueRetention.Milliseconds() {
				t.Errorf("%q lives for %d ms", key, left)
			}
		}

		ahead := granted.Token + lockagent.Token(time.Minute.Microseconds()) // if the time was set back
		server.Do("SET", "lockagent_clock", strconv.FormatUint(uint64(ahead), 10))
		released := release(t, store, ours)
		pass, ok := sub.AwaitPass()
		want := lockagent.Pass{Tenure: theirs.Tenure, Lease: lockagent.PassLease, Token: ahead + 8, Tokens: 5, At: released.At, Incarnation: granted.Incarnation}
		if !ok || pass != want || !released.Passed {
			t.Errorf("released %+v and passed on %+v, want %+v", released, pass, want)
		}
		if got, want := keys(server), sorted([]string{
			string(name), "lockagent_clock", "lockagent_incarnation", "lockagent_queues", "lockagent_token" + suffix, releasedKey(released),
		}); !reflect.DeepEqual(got, want) {
			t.Errorf("the keys are %q, want %q", got, want)
		}
		if left := server.Do("PTTL", string(name)).(int64); left <= 0 || left > lockagent.PassLease.Milliseconds() {
			t.Errorf("the lock that was passed on lives for %d ms", left)
		}
		sub.Cancel()
	}
}

// A Redisson client that waits has no place in the queue. It must not be passed over.
func TestRedissonIsNotPassedOver(t *testing.T) {
	server := redistest.Start(t)
	store, other := open(t, server.URL()), open(t, server.URL())
	storetest.Subscribe(t, other, "orders")
	waiter := server.Dial()
	const ch = "redisson_lock__channel:{orders}"
	if _, err := waiter.Do("SUBSCRIBE", ch); err != nil {
		t.Fatal(err)
	}
	ours := wish("orders", agentA, 1)
	acquire(t, store, ours)
	queue(t, other, wish("orders", agentB, 1))
	if released := release(t, store, ours); released.Passed || released.Others != 2 {
		t.Errorf("Release = %+v; want both woken", released)
	}
	if got, err := waiter.Receive(); err != nil || !reflect.DeepEqual(got, []any{"message", ch, "0"}) {
		t.Errorf("the waiter received %v, %v", got, err)
	}
	peer := redisson{server, "0fe5bd4c-5ad5-4a0b-9d2d-96a9a4a0e5b1:42"}
	if got := peer.acquire("orders", "30000"); got != nil {
		t.Errorf("the peer hears %v of a free lock", got)
	}
}

// A store that is gone, or is cut off, is skipped at once.
func TestALockIsNotPassedOnToWhoIsGone(t *testing.T) {
	server := redistest.Start(t)
	store, gone, other := open(t, server.URL()), open(t, server.URL()), open(t, server.URL())
	storetest.Subscribe(t, gone, "orders")
	sub := storetest.Subscribe(t, other, "orders")
	ours, theirs := wish("orders", agentA, 1), wish("orders", lockagent.NewAgentID(), 1)
	acquire(t, store, ours)
	queue(t, gone, wish("orders", agentB, 1))
	queue(t, other, theirs)
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server to notice", func() bool {
		return len(server.Do("PUBSUB", "CHANNELS", "lockagent_pass:*").([]any)) == 1
	})
	if released := release(t, store, ours); !released.Passed {
		t.Errorf("Release = %+v; want the lock passed on", released)
	}
	if pass, ok := sub.AwaitPass(); !ok || pass.Tenure != theirs.Tenure {
		t.Errorf("passed on %+v", pass)
	}
}

// The locks "a" and "{a}" share a channel, and tenures of them may have one number.
func TestAPassIsForOneLock(t *testing.T) {
	server := redistest.Start(t)
	store, other := open(t, server.URL()), open(t, server.URL())
	plain, tagged := storetest.Subscribe(t, other, "a"), storetest.Subscribe(t, other, "{a}")
	ours := wish("{a}", agentA, 1)
	acquire(t, store, ours)
	queue(t, other, wish("{a}", agentB, 1))
	if released := release(t, store, ours); !released.Passed {
		t.Errorf("Release = %+v; want the lock passed on", released)
	}
	tagged.AwaitPass()
	if len(plain.Passes) > 0 {
		t.Errorf("the other lock was passed on as well: %+v", <-plain.Passes)
	}
}

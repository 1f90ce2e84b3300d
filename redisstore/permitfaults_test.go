package redisstore_test

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/storetest"
)

// Values that Redis cannot count with are refused before anything is written.
func TestNumbersThatAreNone(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, server.URL())
	const count = "123456789012345678" // no semaphore has so many permits
	for i, value := range []string{"007", "abc", "-0", "+1", " 1", "1.5", "", "99999999999999999999", count} {
		name := lockagent.Name("n" + strconv.Itoa(i))
		server.Do("SET", string(name), value)
		for op := lockagent.LatchRead; op <= lockagent.LatchDelete && value != count; op++ {
			if r, err := latch(t, store, lockagent.LatchRequest{
				Name: name, Op: op, Count: 1, Change: "c",
			}); !errors.Is(err, lockagent.ErrWrongType) {
				t.Errorf("a latch of %q: %s: %+v, %v", value, op, r, err)
			}
		}
		for _, kind := range []lockagent.LockKind{lockagent.Semaphore, lockagent.Permits} {
			req := wish(name, agentA, 1)
			req.Kind = kind
			if r, err := storetest.Acquire(t, store, req); !errors.Is(err, lockagent.ErrWrongType) {
				t.Errorf("a %s of %q: Acquire: %+v, %v", kind, value, r, err)
			}
			change := lockagent.PermitsRequest{Name: name, Kind: kind, Op: lockagent.AddPermits, N: 1, Change: "c"}
			if r, err := storetest.Permits(t, store, change); !errors.Is(err, lockagent.ErrWrongType) {
				t.Errorf("a %s of %q: AddPermits: %+v, %v", kind, value, r, err)
			}
		}
		if got := server.Do("GET", string(name)); got != value {
			t.Errorf("%q became %q", value, got)
		}
		if left := server.Do("KEYS", "lockagent_*{"+string(name)+"}*"); !reflect.DeepEqual(left, []any{}) {
			t.Errorf("%q: %q were written", value, left)
		}
	}
}

// The error of a key that is something else tells no more about the script that met it.
func TestTextOfAWrongType(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := open(t, server.URL())
	server.Do("RPUSH", "list", "a")
	const want = "lockagent: the key is used for something else than a lock; choose another name or remove the key: " +
		"WRONGTYPE Operation against a key holding the wrong kind of value"
	tells := func(what string, err error) {
		t.Helper()
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v; want %s", what, err, want)
		}
	}
	for _, kind := range kinds {
		req := wish("list", agentA, 1)
		req.Kind = kind
		_, err := storetest.Acquire(t, store, req)
		tells("Acquire of a "+string(kind), err)
	}
	_, err := latch(t, store, lockagent.LatchRequest{Name: "list", Op: lockagent.LatchDown, Change: "c"})
	tells("LatchDown", err)
	_, err = storetest.Permits(t, store, lockagent.PermitsRequest{
		Name: "list", Kind: lockagent.Semaphore, Op: lockagent.AddPermits, N: 1, Change: "c",
	})
	tells("AddPermits", err)
}

// One key after the other is of another type, for as long as some calls take. These may fail, but no permit
// is lost or made.
func TestPermitsWithASpoiltKey(t *testing.T) {
	pools(t, func(p *pool) {
		storetest.Listen(p.t, p.store, agentA) // so permits are passed to it
		for number, key := range []string{
			p.tenures(), "lockagent_taken:{pool}", "{pool}:timeout", "lockagent_queue:{pool}",
			"lockagent_wanted:{pool}",
			"lockagent_notes:{pool}", "lockagent_turn:{pool}", "lockagent_clock", "lockagent_ahead",
		} {
			p.spoil(key, uint64(20*number+10), false)
			p.spoil(key, uint64(20*number+20), true)
		}
	})
}

// spoil spoils a key while five tenures from a number on come and go, one of which wants too many permits, and the
// leases of two may be over.
func (p *pool) spoil(key string, number uint64, over bool) {
	p.take(number, 2)
	p.take(number+1, 1)
	queue(p.t, p.store, p.wish(number+2, 3))
	_, _ = storetest.Acquire(p.t, p.store, p.wish(number+4, 9))
	if over {
		p.past(p.tenures())
		p.past("{pool}:timeout")
	}
	// The store writes some of the keys at any time. So each of these changes is one step.
	p.server.Do("EVAL", `if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('RENAME', KEYS[1], 'aside') end
		return redis.call('RPUSH', KEYS[1], 'spoilt')`, "1", key)
	more, less := fmt.Sprint("more", number), fmt.Sprint("less", number)
	for range 2 {
		_, _ = p.try(lockagent.AddPermits, 3, more)
		_, _ = storetest.Acquire(p.t, p.store, p.wish(number+3, 1))
		_, _ = p.renew(number)
		_, _ = p.release(number)
		_, _ = p.try(lockagent.AddPermits, -3, less)
		_, _ = p.release(number + 3)
	}
	p.server.Do("EVAL", `redis.call('DEL', KEYS[1])
		if redis.call('EXISTS', 'aside') == 1 then redis.call('RENAME', 'aside', KEYS[1]) end`, "1", key)
	for n := range uint64(5) {
		if _, err := p.release(number + n); err != nil {
			p.t.Errorf("after %s was spoilt: Release(%d): %v", key, n, err)
		}
	}
	p.change(lockagent.AddPermits, 3, more) // has no further effect, if it had one
	p.change(lockagent.AddPermits, -3, less)
	if r := p.change(lockagent.ReadPermits, 0, ""); r.Free != 5 || r.Taken != 0 {
		p.t.Errorf("after %s was spoilt, and leases were over: %t: %+v", key, over, r)
	}
}

// A server that is full refuses new tenures and changes. It goes on to renew and to release.
func TestPermitsOnAFullServer(t *testing.T) {
	pools(t, func(p *pool) {
		p.take(1, 2)
		before := p.server.Do("ZRANGE", p.tenures(), "0", "0", "WITHSCORES")
		p.server.Do("CONFIG", "SET", "maxmemory", "1")
		if r, err := storetest.Acquire(p.t, p.store, p.wish(2, 1)); r.Granted ||
			!errors.Is(err, lockagent.ErrStoreUnavailable) {
			p.t.Errorf("Acquire = %+v, %v", r, err)
		}
		if r, err := p.try(lockagent.AddPermits, 1, "more"); !errors.Is(err, lockagent.ErrStoreUnavailable) {
			p.t.Errorf("AddPermits = %+v, %v", r, err)
		}
		p.counts(3, 2)
		if held, err := p.renew(1); !held || err != nil {
			p.t.Errorf("Renew: %t, %v", held, err)
		}
		if after := p.server.Do("ZRANGE", p.tenures(), "0", "0", "WITHSCORES"); reflect.DeepEqual(before, after) {
			p.t.Error("the lease ends when it did")
		}
		p.releases(1, true)
		p.counts(5, 0)
		p.server.Do("CONFIG", "SET", "maxmemory", "0")
		p.change(lockagent.AddPermits, 1, "more")
		p.counts(6, 0)
	})
}

// A server that takes no writes must not answer that a tenure is withdrawn: nothing would keep a late Acquire
// from taking permits.
func TestPermitsOnAServerThatTakesNoWrites(t *testing.T) {
	pools(t, func(p *pool) {
		p.take(1, 1)
		p.server.Do("CONFIG", "SET", "min-replicas-to-write", "1")
		for number := range uint64(2) {
			req := end(p.wish(number+1, 1))
			req.Kind, req.Unanswered = p.kind, true
			if reply, err := storetest.Release(p.t, p.store, req); !errors.Is(err, lockagent.ErrStoreUnavailable) {
				p.t.Errorf("Release(%d) = %+v, %v", number+1, reply, err)
			}
			if held, err := p.renew(number + 1); !errors.Is(err, lockagent.ErrStoreUnavailable) {
				p.t.Errorf("Renew(%d): %t, %v", number+1, held, err)
			}
		}
		p.server.Do("CONFIG", "SET", "min-replicas-to-write", "0")
		p.counts(4, 1)
	})
}

// A server that evicts keys takes them one by one. Permits that can be known to be taken come back, and none
// is made.
func TestPermitsWithAnEvictedKey(t *testing.T) {
	pools(t, func(p *pool) {
		storetest.Listen(p.t, p.store, agentA)
		for round, key := range []string{
			p.tenures(), "lockagent_taken:{pool}", "{pool}:timeout", "lockagent_queue:{pool}",
			"lockagent_wanted:{pool}", "lockagent_clock",
		} {
			number := uint64(10 * (round + 1))
			p.take(number, 2)
			p.take(number+1, 1)
			queue(p.t, p.store, p.wish(number+2, 3))
			p.server.Do("DEL", key)
			if _, err := p.renew(number); err != nil {
				p.t.Errorf("without %s: Renew: %v", key, err)
			}
			for n := range uint64(3) {
				if _, err := p.release(number + n); err != nil {
					p.t.Errorf("without %s: Release(%d): %v", key, n, err)
				}
			}
			lost := 0
			switch {
			case key == "lockagent_taken:{pool}" && p.kind == lockagent.Permits:
				// The second permit has a lease of its own.
				p.past("{pool}:timeout")
			case key == "lockagent_taken:{pool}" && p.kind == lockagent.Semaphore:
				lost = 1 // nothing says that there were two
			case key == "{pool}:timeout" && p.kind == lockagent.Permits:
				lost = 3 // Redisson loses them as well
			}
			if r := p.change(lockagent.ReadPermits, 0, ""); r.Free != 5-lost || r.Taken != 0 {
				p.t.Errorf("without %s: %+v", key, r)
			}
			p.change(lockagent.AddPermits, lost, fmt.Sprint("again", round))
		}
	})
}

// The key of the ids is a lock of somebody. So a semaphore cannot be set, and a call that says so has changed nothing,
// also if the semaphore was not set before.
func TestPermitsBesideALock(t *testing.T) {
	server := redistest.Start(t)
	p := &pool{t, server, open(t, server.URL()), lockagent.Permits}
	acquire(t, p.store, wish("{pool}:timeout", agentB, 1))
	for _, value := range []any{nil, "5"} {
		if value != nil {
			server.Do("SET", "pool", value.(string))
		}
		for i, op := range []lockagent.PermitsOp{
			lockagent.TrySetPermits, lockagent.SetPermits, lockagent.AddPermits, lockagent.DeletePermits,
		} {
			for range 2 {
				if r, err := p.try(op, 3, fmt.Sprint("change", i)); !errors.Is(err, lockagent.ErrWrongType) {
					t.Errorf("%s = %+v, %v; want ErrWrongType", op, r, err)
				}
			}
			if got := server.Do("GET", "pool"); got != value {
				t.Errorf("after %s there are %v permits; want %v", op, got, value)
			}
		}
	}
	if got := server.Do("HLEN", "{pool}:timeout"); got != int64(1) {
		t.Errorf("the lock has %v fields", got)
	}
}

// The number of free permits is evicted, or somebody deletes it. Whoever sets the semaphore again does not get the
// permits whose leases go on, and their number does not grow when they come back.
func TestPermitsWithoutTheirNumber(t *testing.T) {
	for _, op := range []lockagent.PermitsOp{lockagent.TrySetPermits, lockagent.AddPermits, lockagent.SetPermits} {
		for _, over := range []bool{false, true} {
			t.Run(fmt.Sprint(op, " over: ", over), func(t *testing.T) {
				server := redistest.Start(t)
				p := &pool{t, server, open(t, server.URL()), lockagent.Permits}
				p.change(lockagent.TrySetPermits, 5, "set")
				p.take(1, 3)
				server.Do("DEL", "pool")
				if over {
					p.past("{pool}:timeout")
				}
				r := p.change(op, 5, "again")
				if want := map[bool]int{false: 2, true: 5}[over]; r.Free != want || r.Taken != 5-want || !r.Done {
					t.Errorf("%s = %+v; want %d free", op, r, want)
				}
				if held, err := p.renew(1); held || err != nil {
					t.Errorf("Renew: %t, %v", held, err)
				}
				if !over {
					p.past("{pool}:timeout")
				}
				p.counts(5, 0)
			})
		}
	}
}

// The number of permits of a tenure is evicted. Nothing says how many it was granted, so it is over. It must not live
// on with a part of them, while others are granted the rest.
func TestPermitsWithAnEvictedNumber(t *testing.T) {
	pools(t, func(p *pool) {
		p.take(1, 5)
		p.server.Do("DEL", "lockagent_taken:{pool}")
		if held, err := p.renew(1); held || err != nil {
			p.t.Errorf("Renew: %t, %v", held, err)
		}
		back := 1 // nothing says that there were more
		if p.kind == lockagent.Permits {
			p.counts(1, 4)
			p.past("{pool}:timeout") // the others have leases of their own
			back = 5
		}
		p.counts(back, 0)
		p.releases(1, false)
		p.take(2, back)
		p.counts(0, back)
		if held, err := p.renew(1); held || err != nil {
			p.t.Errorf("Renew after the end: %t, %v", held, err)
		}
		p.counts(0, back)
	})
}

// Nothing says any more what the waiters want. They lose their places, and are told to ask at once.
func TestPermitsWithAnEvictedWish(t *testing.T) {
	pools(t, func(p *pool) {
		messages := storetest.Listen(p.t, p.store, agentA)
		p.take(1, 5)
		queue(p.t, p.store, p.wish(2, 1))
		queue(p.t, p.store, p.wish(3, 1))
		p.server.Do("HDEL", "lockagent_wanted:{pool}", p.wish(2, 1).Tenure.String())
		p.releases(1, true)
		if told, _ := messages.Await(lockagent.MessagePassed, "pool", p.wish(3, 1).Tenure); told.LockKind != p.kind {
			p.t.Errorf("told %+v", told)
		}
		told, ok := messages.Take(lockagent.MessageStandby, "pool", p.wish(2, 1).Tenure)
		if ok && told.AskAfter > 0 { // of when the third one came
			told, ok = messages.Take(lockagent.MessageStandby, "pool", p.wish(2, 1).Tenure)
		}
		if !ok || told.AskAfter != 0 || told.LockKind != p.kind {
			p.t.Errorf("told %+v, %t; want it to ask at once", told, ok)
		}
		p.take(2, 1)
		p.counts(3, 2)
	})
}

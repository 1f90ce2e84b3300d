package redisstore_test

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/redisstore"
	"github.com/lockagent/lockagent/storetest"
)

// pool is a semaphore with the name "pool".
type pool struct {
	t      *testing.T
	server *redistest.Server
	store  *redisstore.Store
	kind   lockagent.LockKind
}

// pools runs a test with a semaphore of 5 permits, for either kind.
func pools(t *testing.T, test func(p *pool)) {
	for _, kind := range []lockagent.LockKind{lockagent.Semaphore, lockagent.Permits} {
		t.Run(string(kind), func(t *testing.T) {
			server := redistest.Start(t)
			p := &pool{t, server, open(t, server.URL()), kind}
			p.change(lockagent.TrySetPermits, 5, "set")
			test(p)
		})
	}
}

func (p *pool) tenures() string {
	if p.kind == lockagent.Permits {
		return "lockagent_tenures:{pool}"
	}
	return "lockagent_permits:{pool}"
}

func (p *pool) wish(number uint64, n int) lockagent.AcquireRequest {
	req := wish("pool", agentA, number)
	req.Kind, req.Permits = p.kind, n
	return req
}

func (p *pool) take(number uint64, n int) {
	p.t.Helper()
	acquire(p.t, p.store, p.wish(number, n))
}

func (p *pool) renew(number uint64) (bool, error) {
	reply, err := storetest.Renew(p.t, p.store, lockagent.RenewRequest{
		Name: "pool", Kind: p.kind, Tenure: p.wish(number, 1).Tenure, Lease: time.Minute, Urgent: true,
	})
	return reply.Held, err
}

func (p *pool) release(number uint64) (bool, error) {
	req := end(p.wish(number, 1))
	req.Kind = p.kind
	reply, err := storetest.Release(p.t, p.store, req)
	return reply.Released, err
}

// releases expects that a tenure is released, or is over.
func (p *pool) releases(number uint64, want bool) {
	p.t.Helper()
	if released, err := p.release(number); released != want || err != nil {
		p.t.Errorf("Release(%d): %t, %v; want %t", number, released, err, want)
	}
}

func (p *pool) try(op lockagent.PermitsOp, n int, change string) (lockagent.PermitsReply, error) {
	return storetest.Permits(p.t, p.store, lockagent.PermitsRequest{
		Name: "pool", Kind: p.kind, Op: op, N: n, Change: change,
	})
}

func (p *pool) change(op lockagent.PermitsOp, n int, change string) lockagent.PermitsReply {
	p.t.Helper()
	reply, err := p.try(op, n, change)
	if err != nil {
		p.t.Fatalf("%s %d: %v", op, n, err)
	}
	return reply
}

func (p *pool) counts(free, taken int) {
	p.t.Helper()
	if r := p.change(lockagent.ReadPermits, 0, ""); r.Free != free || r.Taken != taken {
		p.t.Errorf("%+v; want %d free and %d taken", r, free, taken)
	}
}

// breaksNothing breaks the semaphore, of which nobody has permits.
func (p *pool) breaksNothing() {
	p.t.Helper()
	broken := make(chan error, 1)
	pool := lockagent.BreakRequest{Name: "pool", Kind: p.kind}
	p.store.Break(p.t.Context(), pool, func(r lockagent.BreakReply, err error) {
		if err == nil && r.Broken {
			err = errors.New("broken")
		}
		broken <- err
	})
	if err := <-broken; err != nil {
		p.t.Errorf("Break: %v", err)
	}
}

// past sets the scores of a zset to a time that is over.
func (p *pool) past(key string) {
	for _, member := range p.server.Do("ZRANGE", key, "0", "-1").([]any) {
		p.server.Do("ZADD", key, "XX", "1", member.(string))
	}
}

// While a slot migrates, its keys are at two nodes. A change must not count twice, and a tenure must not
// be denied, because the node that is asked lacks a key.
func TestPermitsWhileASlotMigrates(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2)
	from, to := cluster.Nodes[0], cluster.Nodes[1]
	store := open(t, cluster.URL())
	if cluster.NodeOf("pool") != from {
		from, to = to, from
	}
	for _, kind := range []lockagent.LockKind{lockagent.Semaphore, lockagent.Permits} {
		p := &pool{t, from, store, kind}
		p.change(lockagent.TrySetPermits, 5, "set")
		p.change(lockagent.AddPermits, 1, "first")
		p.take(1, 2)
		p.take(2, 1)

		// In a wrong order, a call works with a part of the keys. It may only fail, as if the server were gone.
		busy := func(when string) {
			t.Helper()
			reply, err := p.try(lockagent.AddPermits, 1, "first")
			if !errors.Is(err, lockagent.ErrStoreUnavailable) && reply.Free != 6 {
				t.Errorf("%s, %s: the repeated change is answered %+v, %v", kind, when, reply, err)
			}
			for number := range uint64(2) {
				if held, err := p.renew(number + 1); !held && !errors.Is(err, lockagent.ErrStoreUnavailable) {
					t.Errorf("%s, %s: Renew: %t, %v", kind, when, held, err)
				}
			}
			reply, err = p.try(lockagent.ReadPermits, 0, "")
			if !errors.Is(err, lockagent.ErrStoreUnavailable) && (reply.Free != 3 || reply.Taken != 3) {
				t.Errorf("%s, %s: the semaphore is %+v, %v", kind, when, reply, err)
			}
			if r, err := storetest.Acquire(t, store, p.wish(9, 4)); r.Granted ||
				err != nil && !errors.Is(err, lockagent.ErrStoreUnavailable) {
				t.Errorf("%s, %s: Acquire of too many permits: %+v, %v", kind, when, r, err)
			}
		}
		move := func(key string) {
			from.Do("MIGRATE", "127.0.0.1", strconv.Itoa(to.Port()), key, "0", "60000") // if it is there
		}
		finish := cluster.BeginMove("pool", from, to)
		if held, err := p.renew(1); !held || err != nil {
			t.Errorf("%s: Renew, while all keys are where they were: %t, %v", kind, held, err)
		}
		busy("before")
		for _, key := range []string{"pool", "lockagent_taken:{pool}", "{pool}:timeout"} {
			move(key)
			busy("after " + key)
		}
		finish()
		busy("at the end")
		for number := range uint64(2) {
			if held, err := p.renew(number + 1); !held || err != nil {
				t.Errorf("%s: Renew: %t, %v", kind, held, err)
			}
		}
		p.change(lockagent.AddPermits, 1, "first")
		p.counts(3, 3)
		p.releases(1, true)
		p.releases(2, true)
		p.counts(6, 0)
		p.change(lockagent.DeletePermits, 0, "delete")
		for _, key := range to.Do("KEYS", "lockagent_change*").([]any) {
			to.Do("DEL", key.(string))
		}
		from, to = to, from
	}
}

// The script takes back a hundred permits at a time. A tenure that begins again before all of its former
// permits are back must not have them twice.
func TestPermitsOfAFormerLease(t *testing.T) {
	pools(t, func(p *pool) {
		p.change(lockagent.AddPermits, 995, "more")
		p.take(1, 250)
		p.past(p.tenures())
		p.past("{pool}:timeout")
		p.take(1, 250)
		for range 10 {
			p.change(lockagent.ReadPermits, 0, "")
		}
		p.counts(750, 250)
		p.releases(1, true)
		p.counts(1000, 0)
	})
}

// More tenures are over than one script takes back. One of them begins again.
func TestTenuresOfFormerLeases(t *testing.T) {
	pools(t, func(p *pool) {
		const tenures = 150
		p.change(lockagent.AddPermits, 2*tenures-5, "more")
		for i := range uint64(tenures) {
			p.take(i+1, 2)
		}
		p.past(p.tenures())
		p.past("{pool}:timeout")
		last := p.server.Do("ZRANGE", p.tenures(), "-1", "-1").([]any)[0].(string)
		var number uint64
		if _, err := fmt.Sscanf(last, string(agentA)+":%d", &number); err != nil {
			p.t.Fatal(err)
		}
		p.take(number, 2)
		for range 10 {
			p.change(lockagent.ReadPermits, 0, "")
		}
		p.counts(2*tenures-2, 2)
		p.releases(number, true)
		p.counts(2*tenures, 0)
	})
}

// Redisson deletes a semaphore and sets it again, while a tenure of ours has permits.
func TestPermitsOfADeletedSemaphore(t *testing.T) {
	pools(t, func(p *pool) {
		p.take(1, 2)
		p.server.Do("DEL", "pool", "{pool}:timeout") // as Redisson does
		if p.kind == lockagent.Semaphore {
			_, _ = p.renew(1) // or nobody can see that it was deleted
		}
		p.server.Do("SET", "pool", "7")
		p.releases(1, false)
		p.counts(7, 0)
	})
}

// Redisson takes away the time to live of a semaphore, and may delete it while a tenure has permits. Our keys are not
// lost before the lease is over, and do not stay for ever.
func TestPermitsOfASemaphoreThatLivesLonger(t *testing.T) {
	pools(t, func(p *pool) {
		longer := int64(86_400_000)
		if p.kind == lockagent.Semaphore {
			longer *= 100
		}
		live := func(most int64, keys ...string) {
			p.t.Helper()
			for _, key := range keys {
				if left := p.server.Do("PTTL", key).(int64); left <= most-30_000 || left > most {
					p.t.Errorf("%s lives for %d ms; want %d", key, left, most)
				}
			}
		}
		p.take(1, 2)
		live(longer+30_000, p.tenures(), "lockagent_taken:{pool}")
		if held, err := p.renew(1); !held || err != nil {
			p.t.Errorf("Renew: %t, %v", held, err)
		}
		live(longer+60_000, p.tenures(), "lockagent_taken:{pool}")
		p.server.Do("PEXPIRE", "pool", "600000")
		p.take(2, 1)
		live(longer+600_000, p.tenures(), "lockagent_taken:{pool}")
		p.server.Do("PERSIST", "pool")
		if held, err := p.renew(1); !held || err != nil {
			p.t.Errorf("Renew: %t, %v", held, err)
		}
		live(longer+600_000, p.tenures(), "lockagent_taken:{pool}")
		p.server.Do("PEXPIRE", "{pool}:timeout", "60000") // does nothing to a Semaphore
		p.take(3, 1)
		for _, key := range keys(p.server) {
			if key == "pool" || key == "{pool}:timeout" {
				if left := p.server.Do("PTTL", key); left != int64(-1) {
					p.t.Errorf("%s lives for %v ms", key, left)
				}
			}
		}
	})
}

// A break ends tenures. It makes no semaphore anew, and neither does the release of a permit.
func TestBreakOfADeletedSemaphore(t *testing.T) {
	pools(t, func(p *pool) {
		p.take(1, 2)
		p.server.Do("DEL", "pool")
		p.breaksNothing()
		if p.kind == lockagent.Permits {
			reply, err := storetest.Permits(p.t, p.store, lockagent.PermitsRequest{
				Name: "pool", Kind: p.kind, Op: lockagent.ReleasePermit, ID: p.wish(1, 1).Tenure.PermitID(1),
				Change: "release",
			})
			if err != nil || reply.Done {
				p.t.Errorf("ReleasePermit = %+v, %v", reply, err)
			}
		}
		if p.server.Do("EXISTS", "pool") != int64(0) {
			p.t.Error("the semaphore is there again")
		}
	})
}

// An inspection counts the permits whose leases go on, and changes nothing.
func TestInspectionOfPermits(t *testing.T) {
	pools(t, func(p *pool) {
		all := func() (dump []any) {
			for _, key := range keys(p.server) {
				dump = append(dump, key, p.server.Do("DUMP", key))
			}
			return dump
		}
		inspects := func(want int) {
			p.t.Helper()
			before, done := all(), make(chan error, 1)
			p.store.Inspect(p.t.Context(), "pool", p.kind, func(seen lockagent.Inspection, err error) {
				if seen.HoldCount != want || seen.Held != (want > 0) || want > 0 && seen.Remaining <= 0 {
					p.t.Errorf("Inspect = %+v; want %d permits", seen, want)
				}
				done <- err
			})
			if err := <-done; err != nil {
				p.t.Fatal(err)
			}
			if !reflect.DeepEqual(all(), before) {
				p.t.Error("an inspection has changed something")
			}
		}
		inspects(0)
		p.take(1, 2)
		p.past(p.tenures())
		p.past("{pool}:timeout")
		over := p.server.Do("ZRANGE", "{pool}:timeout", "0", "-1").([]any)
		inspects(0)
		p.take(2, 1) // takes the others back
		p.take(1, 2)
		p.server.Do("ZADD", p.tenures(), "XX", "1", p.wish(1, 2).Tenure.String())
		for _, id := range over {
			p.server.Do("ZADD", "{pool}:timeout", "XX", "1", id.(string))
		}
		inspects(1)
		p.server.Do("DEL", "pool", "{pool}:timeout")
		inspects(0)
	})
}

// Agents that are gone leave nothing behind.
func TestPlacesOfPermitsAreCleared(t *testing.T) {
	pools(t, func(p *pool) {
		p.take(1, 5)
		for range 20 { // none of them listens
			req := p.wish(1, 2)
			req.Tenure.Agent, req.Queue = lockagent.NewAgentID(), true
			queue(p.t, p.store, req)
		}
		places := p.server.Do("ZRANGE", "lockagent_queue:{pool}", "0", "-1")
		wanted := p.server.Do("HKEYS", "lockagent_wanted:{pool}")
		if len(places.([]any)) > 6 || len(places.([]any)) != len(wanted.([]any)) {
			p.t.Errorf("the places are %v, and those of %v want permits", places, wanted)
		}
		p.server.Do("DEL", "pool")
		for _, place := range places.([]any) {
			req := p.wish(1, 2)
			req.Tenure, _ = lockagent.ParseTenure(place.(string))
			req.Queue = true
			if r, err := storetest.Acquire(p.t, p.store, req); err != nil || !r.NotSet {
				p.t.Errorf("Acquire = %+v, %v; want NotSet", r, err)
			}
		}
		if left := p.server.Do("EXISTS", "lockagent_wanted:{pool}", "lockagent_queue:{pool}"); left != int64(0) {
			p.t.Errorf("%v keys of the queue are left", left)
		}
	})
}

// A change is remembered for longer than the agent may make it again.
func TestChangesAreRememberedLongEnough(t *testing.T) {
	server := redistest.Start(t)
	now := func() time.Duration {
		reply := server.Do("TIME").([]any)
		seconds, err := strconv.ParseInt(reply[0].(string), 10, 64)
		micros, err2 := strconv.ParseInt(reply[1].(string), 10, 64)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		return time.Duration(seconds)*time.Second + time.Duration(micros)*time.Microsecond
	}
	for timeout, least := range map[time.Duration]time.Duration{
		0: time.Minute, 10 * time.Second: 65 * time.Second, time.Hour: 2*time.Hour + 45*time.Second,
	} {
		began := now()
		name := lockagent.Name(timeout.String())
		store := openConfig(t, redisstore.Config{CallTimeout: timeout}, server.URL())
		_, err := storetest.Permits(t, store, lockagent.PermitsRequest{
			Name: name, Kind: lockagent.Semaphore, Op: lockagent.TrySetPermits, N: 1, Change: "c",
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := latch(t, store, lockagent.LatchRequest{
			Name: name + "2", Op: lockagent.LatchSet, Count: 1, Change: "c",
		}); err != nil {
			t.Fatal(err)
		}
		for _, key := range []lockagent.Name{"lockagent_change:{" + name + "}:c", "lockagent_notes:{" + name + "2}"} {
			left := time.Duration(server.Do("PTTL", string(key)).(int64)+1) * time.Millisecond // it is rounded
			if took := now() - began; left+took < least || left > least+6*time.Minute {
				t.Errorf("%s: %s lives for %v, %v after the change", timeout, key, left, took)
			}
		}
	}
}

// The turn of outsiders at a semaphore is as long as at a lock.
func TestTurnOfOutsidersAtPermits(t *testing.T) {
	pools(t, func(p *pool) {
		p.take(1, 5)
		storetest.Listen(p.t, p.store, agentA)
		outsider := p.server.Dial()
		if _, err := outsider.Do("SUBSCRIBE", "redisson_sc:{pool}"); err != nil {
			p.t.Fatal(err)
		}
		for i := range uint64(3) {
			req := p.wish(i+2, 1)
			queue(p.t, p.store, req)
		}
		req := end(p.wish(1, 1))
		req.Kind = p.kind
		reply, err := storetest.Release(p.t, p.store, req)
		if err != nil || !reply.Released || reply.Passed {
			p.t.Fatalf("Release = %+v, %v", reply, err)
		}
		score := p.server.Do("ZSCORE", "lockagent_notes:{pool}", "yield").(string)
		until, err := strconv.ParseInt(score, 10, 64)
		if err != nil {
			p.t.Fatal(err)
		}
		if got := time.Duration(until-int64(reply.At)) * time.Microsecond; got != 25*time.Millisecond {
			p.t.Errorf("the turn of the outsiders lasts %v; want 5 ms for each of 3 tenures and 10 ms more", got)
		}
	})
}

// Redisson deletes a semaphore while a tenure has permits. The name is free for a semaphore of the other kind.
func TestPermitsOfADeletedSemaphoreOfTheOtherKind(t *testing.T) {
	pools(t, func(p *pool) {
		p.take(1, 2)
		p.server.Do("DEL", "pool", "{pool}:timeout")
		other := *p
		if other.kind = lockagent.Semaphore; p.kind == other.kind {
			other.kind = lockagent.Permits
		}
		other.change(lockagent.TrySetPermits, 4, "other")
		other.take(1, 2)
		other.counts(2, 2)
		if held, err := p.renew(1); held || err != nil { // the tenure is over
			p.t.Errorf("Renew as a %s: %t, %v; want false", p.kind, held, err)
		}
	})
}

// When the last permits have come back, by releases or at the end of leases, nothing tells of tenures.
func TestNothingIsLeftOfTenures(t *testing.T) {
	pools(t, func(p *pool) {
		empty := func(when string) {
			p.t.Helper()
			if n := p.server.Do("EXISTS", p.tenures(), "lockagent_taken:{pool}", "{pool}:timeout"); n != int64(0) {
				p.t.Errorf("%s %v keys are left", when, n)
			}
			p.counts(5, 0)
		}
		p.take(1, 3)
		p.take(2, 2)
		p.releases(1, true)
		p.releases(2, true)
		empty("after releases")
		p.take(3, 3)
		p.take(4, 1)
		p.past(p.tenures())
		p.past("{pool}:timeout")
		p.counts(5, 0)
		empty("after leases")
	})
}

// Ids take time. A script that has passed many of them leaves the rest to the next waiters.
func TestPermitsWithManyIDs(t *testing.T) {
	server := redistest.Start(t)
	p := &pool{t, server, open(t, server.URL()), lockagent.Permits}
	messages := storetest.Listen(t, p.store, agentA)
	p.change(lockagent.TrySetPermits, 1900, "set")
	p.take(9, 1)
	p.take(10, 999)
	p.take(11, 900)
	for number := range uint64(3) {
		queue(t, p.store, p.wish(number+1, 600))
	}
	p.change(lockagent.AddPermits, 1900, "add")
	p.change(lockagent.AddPermits, -1, "less")
	p.releases(9, true) // the permits that were added are for those who wait
	p.counts(700, 3099)
	for range 2 { // when the second and the third one came
		if told, _ := messages.Await(lockagent.MessageStandby, "pool", p.wish(1, 1).Tenure); told.AskAfter == 0 {
			t.Errorf("told %+v before any permit was free", told)
		}
	}
	if told, _ := messages.Await(lockagent.MessageStandby, "pool", p.wish(1, 1).Tenure); told.AskAfter != 0 {
		t.Errorf("told %+v; want it to ask at once", told)
	}
	if told, _ := messages.Await(lockagent.MessageStandby, "pool", p.wish(3, 1).Tenure); told.AskAfter != 0 {
		t.Errorf("told %+v; want it to ask at once", told)
	}
	p.take(3, 600)
	p.counts(100, 3699)
}

// A change that is refused takes expired permits back as well. The waiters hear of them.
func TestPermitsThatComeBackWithARefusedChange(t *testing.T) {
	pools(t, func(p *pool) {
		wakes := p.watches()
		p.take(1, 5)
		p.past(p.tenures())
		p.past("{pool}:timeout")
		r, err := p.try(lockagent.AddPermits, lockagent.MaxPermits, "over")
		if !errors.Is(err, lockagent.ErrBadOption) {
			p.t.Errorf("AddPermits = %+v, %v; want ErrBadOption", r, err)
		}
		await(p.t, wakes)
		p.counts(5, 0)
	})
}

// A break of a semaphore of which nobody has permits takes expired permits back as well. The waiters hear of them.
func TestPermitsThatComeBackWithABreak(t *testing.T) {
	pools(t, func(p *pool) {
		wakes := p.watches()
		p.take(1, 5)
		p.past(p.tenures())
		p.past("{pool}:timeout")
		p.breaksNothing()
		await(p.t, wakes)
		p.counts(5, 0)
	})
}

// A tenure that gets no place, because the queue is spoilt, leaves nothing of what it wants.
func TestWishesWithoutAPlace(t *testing.T) {
	pools(t, func(p *pool) {
		p.take(1, 5)
		p.server.Do("SET", "lockagent_queue:{pool}", "spoilt")
		req := p.wish(2, 3)
		req.Queue = true
		if r, err := storetest.Acquire(p.t, p.store, req); err != nil || r.Granted || r.Queued {
			p.t.Errorf("Acquire = %+v, %v; want neither the permits nor a place", r, err)
		}
		if left := p.server.Do("EXISTS", "lockagent_wanted:{pool}"); left != int64(0) {
			p.t.Error("what the tenure wants stays")
		}
	})
}

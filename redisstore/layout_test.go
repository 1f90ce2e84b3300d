package redisstore_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/storetest"
)

// What is in the server while a lock is held, waited for, and over.
func TestLayout(t *testing.T) {
	server := redistest.Start(t)
	store, other := open(t, server.URL()), open(t, server.URL())
	storetest.Listen(t, store, agentA)
	storetest.Listen(t, other, agentB)
	for name, suffix := range map[lockagent.Name]string{"orders 42": ":{orders 42}", "a{b}c": "::a{b}c"} {
		server.Do("FLUSHALL")
		expect := func(when string, want ...string) {
			t.Helper()
			// A store soon writes again who the server is, and since when.
			got := slices.DeleteFunc(keys(server), func(key string) bool {
				return key == "lockagent_store" || key == "lockagent_since"
			})
			if !reflect.DeepEqual(got, sorted(want...)) {
				t.Errorf("%s, the keys are %q, want %q", when, got, want)
			}
		}
		ours, theirs := wish(name, agentA, 7), wish(name, agentB, 1)
		granted := acquire(t, store, ours)
		expect("held", string(name), "lockagent_clock")
		if got, want := server.Do("HGETALL", string(name)), []any{
			string(agentA) + ":7", "2",
		}; !reflect.DeepEqual(got, want) {
			t.Errorf("the lock is %q, want %q", got, want)
		}
		if left := server.Do("PTTL", string(name)).(int64); left <= 0 || left > 30_000 {
			t.Errorf("the lock lives for %d ms", left)
		}
		clock := []any{granted.Incarnation, strconv.FormatUint(uint64(granted.Token), 10)}
		if got := server.Do("ZRANGE", "lockagent_clock", "0", "-1", "WITHSCORES"); !reflect.DeepEqual(got, clock) {
			t.Errorf("the clock is %q, want %q", got, clock)
		}

		sub := storetest.Subscribe(t, other, name)
		queue(t, other, theirs)
		expect("waited for", string(name), "lockagent_clock", "lockagent_queue"+suffix)
		released := release(t, store, ours)
		if !released.Passed {
			t.Errorf("Release = %+v, want the lock passed", released)
		}
		if got, want := server.Do("HGETALL", string(name)), []any{
			theirs.Tenure.String(), "2",
		}; !reflect.DeepEqual(got, want) {
			t.Errorf("the lock that was passed is %q, want %q", got, want)
		}
		release(t, other, theirs)
		expect("released", "lockagent_clock")

		withdrawal := end(ours)
		withdrawal.Unanswered = true
		if reply, err := storetest.Release(t, store, withdrawal); err != nil || reply.Released {
			t.Errorf("Release = %+v, %v; want it withdrawn", reply, err)
		}
		expect("withdrawn", "lockagent_clock", "lockagent_notes"+suffix)
		sub.Cancel()
	}
}

// redisson is another program that uses the lock as a Redisson client does.
type redisson struct {
	server *redistest.Server
	owner  string
}

// acquire returns nil if the lock was acquired, or what is left of it.
func (r redisson) acquire(name, lease string) any {
	return r.server.Do("EVAL", `
		if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
			redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
			redis.call('PEXPIRE', KEYS[1], ARGV[2])
			return nil
		end
		return redis.call('PTTL', KEYS[1])`, "1", name, r.owner, lease)
}

// unlock returns nil if the lock is not its own, 0 if it is still held, 1 if not.
func (r redisson) unlock(name, lease string) any {
	return r.server.Do("EVAL", `
		if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
			return nil
		end
		if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) > 0 then
			redis.call('PEXPIRE', KEYS[1], ARGV[2])
			return 0
		end
		redis.call('DEL', KEYS[1])
		redis.call('PUBLISH', KEYS[2], '0')
		return 1`, "2", name, "redisson_lock__channel:{"+name+"}", r.owner, lease)
}

func TestRedissonExcludesAndIsExcluded(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, server.URL())
	peer := redisson{server, "0fe5bd4c-5ad5-4a0b-9d2d-96a9a4a0e5b1:42"}

	ours := wish("orders", agentA, 1)
	acquire(t, store, ours)
	if left, ok := peer.acquire("orders", "30000").(int64); !ok || left <= 0 || left > 30_000 {
		t.Fatalf("the peer hears %v of a lock that we have", left)
	}
	if got := peer.unlock("orders", "30000"); got != nil {
		t.Fatalf("the peer unlocked our lock: %v", got)
	}
	sub := storetest.Subscribe(t, store, "orders")
	defer sub.Cancel()
	release(t, store, ours)
	sub.Await() // our own

	for count := int64(1); count <= 2; count++ {
		if got := peer.acquire("orders", "30000"); got != nil {
			t.Fatalf("the peer hears %v of a free lock", got)
		}
	}
	next := wish("orders", agentA, 2)
	reply, err := storetest.Acquire(t, store, next)
	if err != nil || reply.Granted || reply.Holder != peer.owner || reply.Remaining <= 0 ||
		reply.Remaining > 30*time.Second {
		t.Fatalf("Acquire of the peer's lock = %+v, %v", reply, err)
	}
	seen, err := storetest.Inspect(t, store, "orders")
	if err != nil || !seen.Held || seen.Holder != peer.owner || seen.HoldCount != 2 {
		t.Errorf("Inspect of the peer's lock = %+v, %v", seen, err)
	}
	for want := int64(0); want <= 1; want++ {
		if got := peer.unlock("orders", "30000"); got != want {
			t.Fatalf("the peer's unlock replied %v, want %d", got, want)
		}
	}
	sub.Await() // the peer's
	acquire(t, store, next)
}

// A read/write lock of Redisson has a field beside its holders. It is no plain lock.
func TestReadWriteLockOfAPeer(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, server.URL())
	for _, mode := range []string{"read", "write"} {
		server.Do("DEL", "orders")
		server.Do("HSET", "orders", "mode", mode, "0fe5bd4c-5ad5-4a0b-9d2d-96a9a4a0e5b1:42", "3")
		server.Do("PEXPIRE", "orders", "30000")
		want := lockagent.KindError{Name: "orders", Kind: lockagent.PlainLock, Used: lockagent.ReadWriteLock}
		reply, err := storetest.Acquire(t, store, wish("orders", agentA, 1))
		if e, _ := errors.AsType[*lockagent.KindError](err); e == nil || *e != want {
			t.Errorf("Acquire = %+v, %v; want %v", reply, err, &want)
		}
		seen, err := storetest.Inspect(t, store, "orders")
		if e, _ := errors.AsType[*lockagent.KindError](err); e == nil || *e != want {
			t.Errorf("Inspect = %+v, %v; want %v", seen, err, &want)
		}
	}
}

func TestReleaseAndBreakPublishOnce(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, server.URL())
	const ch = "redisson_lock__channel:{orders}"
	peer := server.Dial()
	if _, err := peer.Do("SUBSCRIBE", ch); err != nil {
		t.Fatal(err)
	}
	req := wish("orders", agentA, 1)
	acquire(t, store, req)
	if reply := release(t, store, req); reply.Others != 1 {
		t.Errorf("Others %d, want 1", reply.Others)
	}
	if reply, err := storetest.Release(t, store, end(req)); err != nil || reply.Released {
		t.Errorf("repeated, Release = %+v, %v", reply, err) // and silent
	}
	if _, err := storetest.Release(t, store, lockagent.ReleaseRequest{
		Name: "orders", Tenure: lockagent.Tenure{Agent: agentB, Number: 1},
	}); err != nil {
		t.Error(err) // of what was not held: silent
	}
	waittest.Until(t, "the peer's turn to be over", func() bool {
		reply, err := storetest.Acquire(t, store, wish("orders", agentA, 2))
		return err == nil && reply.Granted
	})
	for _, held := range []bool{true, false} {
		if broken, err := storetest.Break(t, store, "orders"); err != nil || broken != held {
			t.Errorf("Break = %t, %v; want %t", broken, err, held)
		}
	}
	server.Do("PUBLISH", ch, "end")
	for _, want := range []string{"0", "0", "end"} {
		got, err := peer.Receive()
		if err != nil || !reflect.DeepEqual(got, []any{"message", ch, want}) {
			t.Fatalf("received %v, %v; want %q", got, err, want)
		}
	}
}

func TestLocksThatShareATagAreTwo(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, server.URL())
	plain, tagged := wish("a", agentA, 5), wish("{a}", agentA, 1)
	acquire(t, store, plain)
	release(t, store, plain)
	acquire(t, store, tagged)
	acquire(t, store, wish("a", agentA, 6))
}

func TestNamesOfOwnKeysAreRefused(t *testing.T) {
	store := open(t, redistest.Start(t).URL())
	for _, name := range []lockagent.Name{"lockagent_clock", "lockagent_queue:{a}", "redisson_lock_queue:{a}"} {
		if reply, err := storetest.Acquire(t, store, wish(name, agentA, 1)); err == nil || !lockagent.Definite(err) ||
			!strings.Contains(err.Error(), "choose another") {
			t.Errorf("Acquire(%q) = %+v, %v; want it refused", name, reply, err)
		}
	}
}

// Beside some kinds of locks there are keys of Redisson's, and it has the same ones for "{a}" and "a".
func TestNamesOfTheSameKeysAreRefused(t *testing.T) {
	store := open(t, redistest.Start(t).URL())
	shared := []lockagent.LockKind{
		lockagent.FairLock, lockagent.FencedLock, lockagent.ReadWriteLock, lockagent.Semaphore, lockagent.Permits,
	}
	for _, kind := range kinds {
		for _, name := range []lockagent.Name{"a", "{a}", "{a}:lock"} {
			req := wish(name, agentA, 1)
			if req.Kind = kind; kind == lockagent.Semaphore || kind == lockagent.Permits {
				req.Permits = 1
			}
			ended := end(req)
			ended.Kind = kind
			_, acquired := storetest.Acquire(t, store, req)
			_, released := storetest.Release(t, store, ended)
			_, renewed := storetest.Renew(t, store, lockagent.RenewRequest{
				Name: name, Kind: kind, Tenure: req.Tenure, Lease: time.Minute, Urgent: true,
			})
			broken, inspected := make(chan error, 1), make(chan error, 1)
			store.Break(
				t.Context(), lockagent.BreakRequest{Name: name, Kind: kind},
				func(_ lockagent.BreakReply, err error) { broken <- err },
			)
			store.Inspect(t.Context(), name, kind, func(_ lockagent.Inspection, err error) { inspected <- err })
			errs := map[string]error{
				"Acquire": acquired, "Release": released, "Renew": renewed, "Break": <-broken, "Inspect": <-inspected,
			}
			if req.Permits > 0 {
				_, errs["Permits"] = storetest.Permits(t, store, lockagent.PermitsRequest{
					Name: name, Kind: kind, Op: lockagent.ReadPermits,
				})
			}
			for call, err := range errs {
				refused := errors.Is(err, lockagent.ErrBadName) && strings.Contains(err.Error(), "{a}:lock") &&
					lockagent.Definite(err)
				if want := name == "{a}" && slices.Contains(shared, kind); refused != want {
					t.Errorf("%s of %s %q: %v", call, kind, name, err)
				}
			}
		}
	}
}

func TestAgentsThatAreNoUUIDAreRefused(t *testing.T) {
	store := open(t, redistest.Start(t).URL())
	for _, agent := range []lockagent.AgentID{"", "a:b", "{a", "a}"} {
		if reply, err := storetest.Acquire(t, store, wish("a", agent, 1)); !lockagent.Definite(err) {
			t.Errorf("Acquire for agent %q = %+v, %v; want it refused", agent, reply, err)
		}
	}
}

func TestALoneCallIsOneCommand(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, server.URL())
	all := func(number uint64) map[string]func() {
		req := wish("orders", agentA, number)
		return map[string]func(){
			"Acquire": func() { acquire(t, store, req) },
			"Renew": func() {
				if reply, err := storetest.Renew(t, store, lockagent.RenewRequest{
					Name: req.Name, Tenure: req.Tenure, Lease: req.Lease,
				}); err != nil || !reply.Held {
					t.Fatalf("Renew = %+v, %v", reply, err)
				}
			},
			"Inspect": func() { _, _ = storetest.Inspect(t, store, req.Name) },
			"Release": func() { release(t, store, req) },
			"Break":   func() { _, _ = storetest.Break(t, store, req.Name) },
		}
	}
	order := []string{"Acquire", "Renew", "Inspect", "Release", "Break"}
	for _, name := range order {
		all(1)[name]() // for the first time, scripts have to be sent
	}
	record := record(t, server)
	for _, name := range order {
		all(2)[name]()
		if got := record.lines(t); len(got) != 1 || !strings.HasPrefix(got[0], `"EVALSHA"`) {
			t.Errorf("%s sent %q, want one EVALSHA", name, got)
		}
	}
}

func TestRenewalsTravelTogether(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := open(t, server.URL())
	const locks = 1000
	done := make(chan error, locks)
	name := func(i int) lockagent.Name { return lockagent.Name("orders/" + strconv.Itoa(i)) }
	for i := range locks {
		store.Acquire(
			context.Background(), wish(name(i), agentA, 1), func(_ lockagent.AcquireReply, err error) { done <- err },
		)
	}
	for range locks {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if _, err := storetest.Renew(t, store, lockagent.RenewRequest{
		Name: name(0), Tenure: lockagent.Tenure{Agent: agentA, Number: 1}, Lease: time.Hour,
	}); err != nil {
		t.Fatal(err) // the script has to be sent
	}
	server.Do("CONFIG", "RESETSTAT")
	for i := range locks {
		store.Renew(context.Background(), lockagent.RenewRequest{
			Name: name(i), Tenure: lockagent.Tenure{Agent: agentA, Number: 1}, Lease: time.Hour,
		}, func(reply lockagent.RenewReply, err error) {
			if err == nil && !reply.Held {
				err = lockagent.ErrNotHeld
			}
			done <- err
		})
	}
	for range locks {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	// How many travel together is up to package renewals, and is tested there.
	if got := server.Calls("evalsha"); got == 0 || got >= locks {
		t.Errorf("%d renewals were %d commands, want fewer", locks, got)
	}
	for i := range locks {
		if left := server.Do("PTTL", string(name(i))).(int64); left <= 60_000 {
			t.Fatalf("lock %d lives for %d ms", i, left)
		}
	}
}

func TestScriptsAreSentAgainWhenTheyAreFlushed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := open(t, server.URL())
	for number := uint64(1); number <= 3; number++ {
		req := wish("orders", agentA, number)
		acquire(t, store, req)
		server.Do("SCRIPT", "FLUSH")
		if reply, err := storetest.Renew(t, store, lockagent.RenewRequest{
			Name: req.Name, Tenure: req.Tenure, Lease: req.Lease,
		}); err != nil || !reply.Held {
			t.Fatalf("Renew = %+v, %v", reply, err)
		}
		server.Do("SCRIPT", "FLUSH")
		release(t, store, req)
		server.Do("SCRIPT", "FLUSH")
	}
}

// A reader of ours comes and goes beside one of Redisson. It leaves that one as it was: some versions of
// Redisson do not renew all of their keys, so the hash must not live shorter than before.
func TestReaderBesideAPeer(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, server.URL())
	const reader = "0fe5bd4c-5ad5-4a0b-9d2d-96a9a4a0e5b1:42"
	server.Do("HSET", "orders", "mode", "read", reader, "2")
	server.Do("PEXPIRE", "orders", "30000")
	server.Do("SET", "{orders}:"+reader+":rwlock_timeout:1", "1", "PX", "1500")
	server.Do("SET", "{orders}:"+reader+":rwlock_timeout:2", "1", "PX", "1500")
	req := wish("orders", agentA, 1)
	req.Kind, req.Mode = lockagent.ReadWriteLock, lockagent.Shared
	acquire(t, store, req)
	ending := end(req)
	ending.Kind = lockagent.ReadWriteLock
	if reply, err := storetest.Release(t, store, ending); err != nil || !reply.Released {
		t.Errorf("Release = %+v, %v", reply, err)
	}
	if got, want := server.Do("HGETALL", "orders"), []any{"mode", "read", reader, "2"}; !reflect.DeepEqual(got, want) {
		t.Errorf("the lock is %q, want %q", got, want)
	}
	if left := server.Do("PTTL", "orders").(int64); left < 20_000 {
		t.Errorf("the lock lives for %d ms more", left)
	}
}

// A reader that is renewed while the server is full keeps the lock.
func TestReaderIsRenewedOnAFullServer(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, server.URL())
	req := wish("orders", agentA, 0)
	req.Kind, req.Mode, req.Lease = lockagent.ReadWriteLock, lockagent.Shared, 2*time.Second
	waittest.Until(t, "a renewal before the lease is over", func() bool {
		req.Tenure.Number++
		acquire(t, store, req)
		server.Do("CONFIG", "SET", "maxmemory", "1")
		renewal := lockagent.RenewRequest{
			Name: "orders", Kind: lockagent.ReadWriteLock, Tenure: req.Tenure, Lease: time.Minute, Urgent: true,
		}
		reply, err := storetest.Renew(t, store, renewal)
		if err != nil {
			t.Fatalf("Renew: %v", err)
		}
		server.Do("CONFIG", "SET", "maxmemory", "0")
		return reply.Held
	})
	waittest.Until(t, "the first lease to be over", func() bool {
		left := server.Do("PTTL", "lockagent_readers:{orders}").(int64)
		return server.Do("PTTL", "orders").(int64) < 57_500 && left != 0
	})
	writer := wish("orders", agentB, 1)
	writer.Kind = lockagent.ReadWriteLock
	if reply, err := storetest.Acquire(t, store, writer); err != nil || reply.Granted {
		t.Errorf("Acquire = %+v, %v; want it refused", reply, err)
	}
}

// The tokens of permits are above the floor, also if the clock is ahead of the server's already.
func TestTokensOfPermitsAreAboveTheFloor(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, server.URL())
	server.Do("SET", "pool", "10")
	floor := lockagent.Token(time.Now().UnixMicro())
	for number := uint64(1); number <= 3; number++ {
		floor += lockagent.Token((10 * time.Minute).Microseconds())
		req := wish("pool", agentA, number)
		req.Kind, req.Floor = lockagent.Semaphore, floor
		reply := acquire(t, store, req)
		if reply.Token <= floor {
			t.Errorf(
				"token %d, which is %v below the floor", reply.Token, time.Duration(floor-reply.Token)*time.Microsecond,
			)
		}
	}
}

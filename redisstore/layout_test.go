package redisstore_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/storetest"
)

const (
	agentA lockagent.AgentID = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
	agentB lockagent.AgentID = "bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb"
)

func wish(name lockagent.Name, agent lockagent.AgentID, number uint64) lockagent.AcquireRequest {
	return lockagent.AcquireRequest{Name: name, Tenure: lockagent.Tenure{Agent: agent, Number: number}, Lease: 30 * time.Second, Tokens: 1}
}

func acquire(t *testing.T, s lockagent.Store, req lockagent.AcquireRequest) lockagent.AcquireReply {
	t.Helper()
	reply, err := storetest.Acquire(t, s, req)
	if err != nil || !reply.Granted {
		t.Fatalf("Acquire(%q) = %+v, %v; want it granted", req.Name, reply, err)
	}
	return reply
}

func release(t *testing.T, s lockagent.Store, req lockagent.AcquireRequest) lockagent.ReleaseReply {
	t.Helper()
	reply, err := storetest.Release(t, s, lockagent.ReleaseRequest{Name: req.Name, Tenure: req.Tenure})
	if err != nil || !reply.Released {
		t.Fatalf("Release(%q) = %+v, %v; want it released", req.Name, reply, err)
	}
	return reply
}

// keys are all keys of a server.
func keys(server *redistest.Server) []string {
	var keys []string
	for _, key := range server.Do("KEYS", "*").([]any) {
		keys = append(keys, key.(string))
	}
	slices.Sort(keys)
	return keys
}

func TestLayoutOfAHeldLock(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, server.URL())
	for name, key := range map[lockagent.Name]string{"orders": ":{orders}", "a{b}c": "::a{b}c"} {
		server.Do("FLUSHALL")
		granted := acquire(t, store, wish(name, agentA, 7))
		if got, want := keys(server), []string{string(name), "lockagent_clock", "lockagent_incarnation"}; !reflect.DeepEqual(got, sorted(want)) {
			t.Errorf("the keys are %q, want %q", got, sorted(want))
		}
		if got, want := server.Do("HGETALL", string(name)), []any{string(agentA) + ":7", "1"}; !reflect.DeepEqual(got, want) {
			t.Errorf("the lock is %q, want %q", got, want)
		}
		if left := server.Do("PTTL", string(name)).(int64); left <= 0 || left > 30_000 {
			t.Errorf("the lock lives for %d ms", left)
		}
		if got, want := server.Do("GET", "lockagent_clock"), strconv.FormatUint(uint64(granted.Token), 10); got != want {
			t.Errorf("the clock shows %q, want %q", got, want)
		}
		if got := server.Do("PTTL", "lockagent_clock"); got != int64(-1) {
			t.Errorf("the clock lives for %d ms", got)
		}
		more := wish(name, agentA, 7)
		more.Tokens = 1000
		last := acquire(t, store, more).Token + 999
		if got, want := server.Do("GET", "lockagent_token"+key), strconv.FormatUint(uint64(last), 10); got != want {
			t.Errorf("the last token is %q, want %q", got, want)
		}
		if left := server.Do("PTTL", "lockagent_token"+key).(int64); left <= 0 || left > time.Hour.Milliseconds() {
			t.Errorf("the last token lives for %d ms", left)
		}
		if got := server.Do("GET", "lockagent_incarnation"); got != granted.Incarnation {
			t.Errorf("the incarnation is %q, want %q", got, granted.Incarnation)
		}
		if left := server.Do("PTTL", "lockagent_incarnation"); left != int64(-1) {
			t.Errorf("the incarnation lives for %d ms", left)
		}
	}
}

// releasedKey is where a release of agentA is remembered.
func releasedKey(r lockagent.ReleaseReply) string {
	minute := int64(r.At) / time.Minute.Microseconds()
	return []string{"lockagent_even:", "lockagent_odd:"}[minute%2] + string(agentA)
}

func TestLayoutOfAReleasedLock(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, server.URL())
	for _, name := range []lockagent.Name{"orders", "{a}"} {
		server.Do("FLUSHALL")
		req := wish(name, agentA, 7)
		acquire(t, store, req)
		released := release(t, store, req)
		done := releasedKey(released)
		if got, want := keys(server), []string{"lockagent_clock", "lockagent_incarnation", done}; !reflect.DeepEqual(got, sorted(want)) {
			t.Errorf("the keys are %q, want %q", got, sorted(want))
		}
		if got, want := server.Do("HGET", done, string(name)), fmt.Sprintf("0000000000000000007:1:%d:0", released.At); got != want {
			t.Errorf("the release is kept as %q, want %q", got, want)
		}
		if got, want := server.Do("HGET", done, ""), fmt.Sprintf("0000000000000000007:%d", released.At/1e6); got != want {
			t.Errorf("the greatest number is kept as %q, want %q", got, want)
		}
		if left := server.Do("PTTL", done).(int64); left <= 2*time.Minute.Milliseconds() || left > 3*time.Minute.Milliseconds() {
			t.Errorf("the release is kept for %d ms", left)
		}
	}
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

// A token that is ahead of the clock is kept until the clock has passed it, and
// then for the usual time.
func TestTokenAheadOfTheClockIsKept(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, server.URL())
	req := wish("orders", agentA, 1)
	req.Floor = acquire(t, store, wish("another", agentA, 1)).Token + lockagent.Token(time.Hour.Microseconds())
	acquire(t, store, req)
	if left := server.Do("PTTL", "lockagent_token:{orders}").(int64); left <= time.Hour.Milliseconds() || left > 2*time.Hour.Milliseconds() {
		t.Errorf("the token lives for %d ms", left)
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
	if err != nil || reply.Granted || reply.Holder != peer.owner || reply.Remaining <= 0 || reply.Remaining > 30*time.Second {
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

// A read/write lock of Redisson has a field beside its holders.
func TestReadWriteLockOfAPeer(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, server.URL())
	for _, mode := range []string{"read", "write"} {
		const reader = "0fe5bd4c-5ad5-4a0b-9d2d-96a9a4a0e5b1:42"
		server.Do("DEL", "orders")
		server.Do("HSET", "orders", "mode", mode, reader, "3")
		server.Do("PEXPIRE", "orders", "30000")
		reply, err := storetest.Acquire(t, store, wish("orders", agentA, 1))
		if err != nil || reply.Granted || reply.Holder != reader || reply.Remaining <= 0 {
			t.Errorf("Acquire = %+v, %v; want it refused because of %s", reply, err, reader)
		}
		seen, err := storetest.Inspect(t, store, "orders")
		if err != nil || !seen.Held || seen.Holder != reader || seen.HoldCount != 3 {
			t.Errorf("Inspect = %+v, %v; want it held by %s", seen, err, reader)
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
	release(t, store, req) // repeated: silent
	if _, err := storetest.Release(t, store, lockagent.ReleaseRequest{Name: "orders", Tenure: lockagent.Tenure{Agent: agentB, Number: 1}}); err != nil {
		t.Error(err) // of what was not held: silent
	}
	acquire(t, store, wish("orders", agentA, 2))
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

// A repeated release tells what the first one did, even if others have come or
// gone meanwhile.
func TestRepeatedReleaseHasTheSameReply(t *testing.T) {
	server := redistest.Start(t)
	store, other := open(t, server.URL()), open(t, server.URL())
	req := wish("orders", agentA, 1)
	acquire(t, store, req)
	sub := storetest.Subscribe(t, other, "orders")
	first := release(t, store, req)
	sub.Cancel()
	if again := release(t, store, req); again != first || first.Others != 1 {
		t.Errorf("released %+v, and repeated %+v; want them the same, with 1 other", first, again)
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
	for _, name := range []lockagent.Name{"lockagent_incarnation", "lockagent_token:{a}"} {
		if reply, err := storetest.Acquire(t, store, wish(name, agentA, 1)); err == nil || !lockagent.Definite(err) || !strings.Contains(err.Error(), "choose another") {
			t.Errorf("Acquire(%q) = %+v, %v; want it refused", name, reply, err)
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

// commands records what clients send to a server.
type commands struct {
	server *redistest.Server
	conn   *redistest.Conn
}

func record(t *testing.T, server *redistest.Server) *commands {
	t.Helper()
	c := &commands{server: server, conn: server.Dial()}
	if _, err := c.conn.Do("MONITOR"); err != nil {
		t.Fatal(err)
	}
	return c
}

// lines returns what was sent since the last time, without what scripts ran.
func (c *commands) lines(t *testing.T) []string {
	t.Helper()
	const end = `"ECHO" "end"`
	c.server.Do("ECHO", "end")
	var sent []string
	for {
		line, err := c.conn.Receive() // time [database address] "command" "argument" ...
		if err != nil {
			t.Fatal(err)
		}
		_, origin, _ := strings.Cut(line.(string), " [")
		origin, command, _ := strings.Cut(origin, "] ")
		switch {
		case command == end:
			return sent
		case !strings.HasSuffix(origin, " lua"):
			sent = append(sent, command)
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
				if reply, err := storetest.Renew(t, store, lockagent.RenewRequest{Name: req.Name, Tenure: req.Tenure, Lease: req.Lease}); err != nil || !reply.Held {
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

func TestManyRenewalsAreFewCommands(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, server.URL())
	const locks = 1000
	done := make(chan error, locks)
	name := func(i int) lockagent.Name { return lockagent.Name("orders/" + strconv.Itoa(i)) }
	for i := range locks {
		store.Acquire(context.Background(), wish(name(i), agentA, 1), func(_ lockagent.AcquireReply, err error) { done <- err })
	}
	for range locks {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if _, err := storetest.Renew(t, store, lockagent.RenewRequest{Name: name(0), Tenure: lockagent.Tenure{Agent: agentA, Number: 1}, Lease: time.Hour}); err != nil {
		t.Fatal(err) // the script has to be sent
	}
	server.Do("CONFIG", "RESETSTAT")
	for i := range locks {
		store.Renew(context.Background(), lockagent.RenewRequest{Name: name(i), Tenure: lockagent.Tenure{Agent: agentA, Number: 1}, Lease: time.Hour}, func(reply lockagent.RenewReply, err error) {
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
	if got := server.Calls("evalsha"); got != locks/100 {
		t.Errorf("%d renewals were %d commands, want %d", locks, got, locks/100)
	}
	for i := range locks {
		if left := server.Do("PTTL", string(name(i))).(int64); left <= 60_000 {
			t.Fatalf("lock %d lives for %d ms", i, left)
		}
	}
}

func TestScriptsAreSentAgainWhenTheyAreFlushed(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, server.URL())
	for number := uint64(1); number <= 3; number++ {
		req := wish("orders", agentA, number)
		acquire(t, store, req)
		server.Do("SCRIPT", "FLUSH")
		if reply, err := storetest.Renew(t, store, lockagent.RenewRequest{Name: req.Name, Tenure: req.Tenure, Lease: req.Lease}); err != nil || !reply.Held {
			t.Fatalf("Renew = %+v, %v", reply, err)
		}
		server.Do("SCRIPT", "FLUSH")
		release(t, store, req)
		server.Do("SCRIPT", "FLUSH")
	}
}

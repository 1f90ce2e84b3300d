package redisstore_test

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore"
)

// latch makes a call about a latch, and waits for the reply.
func latch(t *testing.T, s *redisstore.Store, req lockagent.LatchRequest) (lockagent.LatchReply, error) {
	t.Helper()
	type answer struct {
		reply lockagent.LatchReply
		err   error
	}
	out := make(chan answer, 1)
	s.Latch(t.Context(), req, func(reply lockagent.LatchReply, err error) { out <- answer{reply, err} })
	a := <-out
	return a.reply, a.err
}

// isOpen asks whether a latch is open, for a waiter that found it closed before.
func isOpen(t *testing.T, s *redisstore.Store, name lockagent.Name) (bool, error) {
	t.Helper()
	req := wish(name, agentA, 1)
	req.Kind, req.FoundClosed = lockagent.Latch, true
	type answer struct {
		open bool
		err  error
	}
	out := make(chan answer, 1)
	s.Acquire(t.Context(), req, func(reply lockagent.AcquireReply, err error) { out <- answer{reply.Granted, err} })
	a := <-out
	return a.open, a.err
}

// latchSubscribed subscribes to a latch, and waits until the subscription stands.
func latchSubscribed(t *testing.T, s *redisstore.Store, name lockagent.Name) <-chan struct{} {
	t.Helper()
	woken := make(chan struct{}, 100)
	t.Cleanup(s.Subscribe(name, lockagent.Latch, func() { woken <- struct{}{} }))
	<-woken
	return woken
}

// What is in the server during the life of a latch. Notes are for those who repeat a change.
func TestLatchLayout(t *testing.T) {
	server := redistest.Start(t)
	// On which the life of notes depends.
	store := openConfig(t, redisstore.Config{CallTimeout: redisstore.DefaultCallTimeout}, server.URL())
	for name, notes := range map[lockagent.Name]string{
		"ready": "lockagent_notes:{ready}", "a{b}c": "lockagent_notes::a{b}c",
	} {
		value := func() any { return server.Do("GET", string(name)) }
		changes := func(want ...any) {
			t.Helper()
			if got := server.Do("ZRANGE", notes, "0", "-1"); !reflect.DeepEqual(got, want) {
				t.Errorf("the notes are %v, want %v", got, want)
			}
		}
		do := func(op lockagent.LatchOp, change string) {
			t.Helper()
			if r, err := latch(t, store, lockagent.LatchRequest{
				Name: name, Op: op, Count: 2, Change: change,
			}); err != nil || !r.Changed {
				t.Errorf("%s: %+v, %v", op, r, err)
			}
		}
		do(lockagent.LatchSet, "c1")
		if got := value(); got != "2" {
			t.Errorf("the latch is %v", got)
		}
		if ttl := server.Do("PTTL", string(name)); ttl != int64(-1) {
			t.Errorf("the latch lives for %v", ttl)
		}
		changes("c1")
		if ttl := server.Do("PTTL", notes).(int64); ttl <= 0 || ttl > 60_000 {
			t.Errorf("the notes live for %d ms", ttl)
		}
		do(lockagent.LatchDown, "c2")
		do(lockagent.LatchDown, "c3")
		if got := value(); got != nil {
			t.Errorf("the open latch is %v", got)
		}
		if got := server.Do("ZSCORE", notes, ".opened"); got == nil {
			t.Error("nothing says that the latch was counted down")
		}
		do(lockagent.LatchSet, "c4")
		if got := server.Do("ZSCORE", notes, ".opened"); got != nil {
			t.Error("the latch that was set again counts as open")
		}
		server.Do("ZADD", notes, "5", "old1", "5", "old2", "5", "old3")
		do(lockagent.LatchDelete, "c5")
		changes("old3", "c1", "c2", "c3", "c4", "c5")
	}
}

// Redisson counts a latch down to 0, and deletes another. It leaves no note of that: the message tells
// which it was.
func TestLatchEndedByRedisson(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, server.URL())
	for _, c := range []struct {
		name    lockagent.Name
		message string
		want    error
	}{
		{"counted", "0", nil},
		{"counted", "1", lockagent.ErrLatchGone},
		{"deleted", "1", lockagent.ErrLatchGone},
		{"gone silently", "", lockagent.ErrLatchGone},
	} {
		if _, err := latch(t, store, lockagent.LatchRequest{
			Name: c.name, Op: lockagent.LatchSet, Count: 1, Change: "c" + c.message,
		}); err != nil {
			t.Fatal(err)
		}
		woken := latchSubscribed(t, store, c.name)
		if open, err := isOpen(t, store, c.name); open || err != nil {
			t.Errorf("%s: open: %t, %v", c.name, open, err)
		}
		server.Do("DEL", string(c.name))
		if c.message != "" {
			server.Do("PUBLISH", "redisson_countdownlatch__channel__{"+string(c.name)+"}", c.message)
			<-woken
		}
		if open, err := isOpen(t, store, c.name); open != (c.want == nil) || !errors.Is(err, c.want) {
			t.Errorf("%s: open: %t, %v; want %v", c.name, open, err, c.want)
		}
	}
}

// The message that tells how a latch ended may come after the reply that there is none.
func TestLatchMessageBehindTheReply(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, server.URL())
	if _, err := latch(t, store, lockagent.LatchRequest{
		Name: "ready", Op: lockagent.LatchSet, Count: 1, Change: "c1",
	}); err != nil {
		t.Fatal(err)
	}
	woken := latchSubscribed(t, store, "ready")
	server.Do("DEL", "ready")
	asked := server.Calls("evalsha")
	outcome := make(chan error, 1)
	go func() {
		open, err := isOpen(t, store, "ready")
		if err == nil && !open {
			err = errors.New("it is closed")
		}
		outcome <- err
	}()
	waittest.Until(t, "the question", func() bool { return server.Calls("evalsha") > asked })
	server.Do("PUBLISH", "redisson_countdownlatch__channel__{ready}", "0")
	<-woken
	if err := <-outcome; err != nil {
		t.Errorf("counted down: %v", err)
	}
}

// Redisson opens its latch at "0", and closes it at "1". A latch that it takes for open although it is set would have
// its waiters ask without a pause.
func TestLatchMessages(t *testing.T) {
	server := redistest.Start(t)
	store, heard := open(t, server.URL()), server.Dial()
	if _, err := heard.Do("SUBSCRIBE", "redisson_countdownlatch__channel__{ready}"); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		op   lockagent.LatchOp
		told string
	}{{lockagent.LatchSet, "1"}, {lockagent.LatchDown, "0"}, {lockagent.LatchSet, "1"}, {lockagent.LatchDelete, "1"}} {
		req := lockagent.LatchRequest{Name: "ready", Op: c.op, Count: 1, Change: "c" + strconv.Itoa(i)}
		if r, err := latch(t, store, req); err != nil || !r.Changed {
			t.Fatalf("%s: %+v, %v", c.op, r, err)
		}
		message, err := heard.Receive()
		if err != nil || message.([]any)[2] != any(c.told) {
			t.Errorf("%s: told %v, %v; want %q", c.op, message, err, c.told)
		}
	}
}

// What is no latch is left alone.
func TestLatchOfAnotherType(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, server.URL())
	server.Do("SET", "text", "three")
	server.Do("HSET", "hash", "a", "1")
	for _, name := range []lockagent.Name{"text", "hash"} {
		before := server.Do("DUMP", string(name))
		for _, op := range []lockagent.LatchOp{
			lockagent.LatchRead, lockagent.LatchSet, lockagent.LatchDown, lockagent.LatchDelete,
		} {
			if r, err := latch(t, store, lockagent.LatchRequest{
				Name: name, Op: op, Count: 1, Change: "c1",
			}); !errors.Is(err, lockagent.ErrWrongType) || strings.Contains(err.Error(), "script") {
				t.Errorf("%s %s: %+v, %v", op, name, r, err)
			}
		}
		if open, err := isOpen(t, store, name); open || !errors.Is(err, lockagent.ErrWrongType) {
			t.Errorf("%s: open: %t, %v", name, open, err)
		}
		if !reflect.DeepEqual(server.Do("DUMP", string(name)), before) {
			t.Errorf("%s was changed", name)
		}
	}
}

// Redisson deletes a semaphore while a tenure has permits. A latch of that name is not taken for the semaphore.
func TestLatchInPlaceOfADeletedSemaphore(t *testing.T) {
	pools(t, func(p *pool) {
		p.take(1, 2)
		p.server.Do("DEL", "pool", "{pool}:timeout")
		for i, op := range []lockagent.LatchOp{lockagent.LatchSet, lockagent.LatchDown} {
			r, err := latch(t, p.store, lockagent.LatchRequest{Name: "pool", Op: op, Count: 3, Change: op.String()})
			if want := int64(3 - i); r.Count != want || err != nil {
				t.Errorf("%s: %+v, %v; want the count %d", op, r, err, want)
			}
		}
		if held, err := p.renew(1); held || err != nil { // the tenure is over
			t.Errorf("Renew: %t, %v; want false", held, err)
		}
		if got := p.server.Do("GET", "pool"); got != "2" {
			t.Errorf("the latch is %v", got)
		}
	})
}

// Redisson can set a latch to 0, and then there is a key. Nobody can set the latch until the key is gone.
func TestLatchOfZero(t *testing.T) {
	server := redistest.Start(t)
	store := open(t, server.URL())
	woken := latchSubscribed(t, store, "zero")
	for i, value := range []string{"0", "-1"} {
		server.Do("SET", "zero", value)
		req := lockagent.LatchRequest{Name: "zero", Op: lockagent.LatchDelete, Change: "c" + strconv.Itoa(i)}
		for range 2 {
			if r, err := latch(t, store, req); !r.Changed || err != nil {
				t.Errorf("delete of %s: %+v, %v", value, r, err)
			}
		}
		if there := server.Do("EXISTS", "zero"); there != int64(0) {
			t.Errorf("%s is still there", value)
		}
		if !t.Failed() {
			<-woken
		}
	}
}

// In a Cluster the channel of such a latch would be in another slot than the latch: Redisson could set
// it, but never count it down.
func TestLatchWithATagInACluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3)
	store := open(t, cluster.URL())
	if _, err := latch(t, store, lockagent.LatchRequest{
		Name: "{a}", Op: lockagent.LatchSet, Count: 1, Change: "c1",
	}); !errors.Is(err, lockagent.ErrBadName) {
		t.Errorf("set: %v", err)
	}
	if _, err := isOpen(t, store, "{a}"); !errors.Is(err, lockagent.ErrBadName) {
		t.Errorf("awaited: %v", err)
	}
	woken := latchSubscribed(t, store, "a")
	for i, op := range []lockagent.LatchOp{lockagent.LatchSet, lockagent.LatchDown} {
		if _, err := latch(t, store, lockagent.LatchRequest{
			Name: "a", Op: op, Count: 1, Change: "c" + string(rune('1'+i)),
		}); err != nil {
			t.Fatal(err)
		}
		<-woken
	}
	if open, err := isOpen(t, store, "a"); !open || err != nil {
		t.Errorf("open: %t, %v", open, err)
	}
}

// While a slot migrates, a latch must not be counted down twice, and a waiter must not be told that it is gone.
func TestLatchWhileASlotMigrates(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2)
	from, to := cluster.Nodes[0], cluster.Nodes[1]
	store := open(t, cluster.URL())
	if cluster.NodeOf("ready") != from {
		from, to = to, from
	}
	down := lockagent.LatchRequest{Name: "ready", Op: lockagent.LatchDown, Change: "down"}
	if r, err := latch(t, store, lockagent.LatchRequest{
		Name: "ready", Op: lockagent.LatchSet, Count: 2, Change: "set",
	}); !r.Changed || err != nil {
		t.Fatal(r, err)
	}
	busy := func(when string) {
		t.Helper()
		if r, err := latch(t, store, down); !errors.Is(err, lockagent.ErrStoreUnavailable) &&
			(r.Count != 1 || err != nil) {
			t.Errorf("%s: the repeated change is answered %+v, %v", when, r, err)
		}
	}
	busy("first")
	finish := cluster.BeginMove("ready", from, to)
	busy("before")
	from.Do("MIGRATE", "127.0.0.1", strconv.Itoa(to.Port()), "ready", "0", "60000")
	busy("after the latch")
	finish()
	if r, err := latch(t, store, down); r.Count != 1 || err != nil {
		t.Errorf("after the move: %+v, %v", r, err)
	}
	down.Change = "again"
	if r, err := latch(t, store, down); r.Count != 0 || err != nil {
		t.Errorf("after the move: %+v, %v", r, err)
	}
	finish = cluster.BeginMove("ready", to, from)
	if open, err := isOpen(t, store, "ready"); !open && !errors.Is(err, lockagent.ErrStoreUnavailable) {
		t.Errorf("open: %t, %v", open, err)
	}
	finish()
	if open, err := isOpen(t, store, "ready"); !open || err != nil {
		t.Errorf("open: %t, %v", open, err)
	}
}

package redisstore

import (
	"errors"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore/internal/hashslot"
	"github.com/lockagent/lockagent/redisstore/internal/script"
	"github.com/lockagent/lockagent/redisstore/internal/transport"
	"github.com/lockagent/lockagent/storetest"
)

const agent lockagent.AgentID = "11111111-1111-4111-8111-111111111111"

func openURL(t testing.TB, url string) *Store {
	t.Helper()
	s, err := Config{
		Grace: GraceOff, DialTimeout: storetest.Patience, CallTimeout: storetest.Patience, SilenceTimeout: storetest.Patience,
	}.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// batch are calls that travel together, and what they are answered.
type batch struct {
	t        testing.TB
	store    *Store
	items    []transport.Item
	answers  chan int   // the index of each that is answered
	mu       sync.Mutex // guards what follows until all are answered
	acquired map[int]answer[lockagent.AcquireReply]
	released map[int]answer[lockagent.ReleaseReply]
}

type answer[A any] struct {
	reply A
	err   error
}

func newBatch(t testing.TB, s *Store) *batch {
	return &batch{
		t: t, store: s, answers: make(chan int, 1000),
		acquired: make(map[int]answer[lockagent.AcquireReply]), released: make(map[int]answer[lockagent.ReleaseReply]),
	}
}

func tenure(number uint64) lockagent.Tenure { return lockagent.Tenure{Agent: agent, Number: number} }

func (b *batch) acquire(req lockagent.AcquireRequest) {
	i := len(b.items)
	of, slot := b.store.families[lockagent.PlainLock], b.store.slot(req.Name)
	b.items = append(b.items, &acquireCall{req: req, of: of, slot: slot, done: func(
		r lockagent.AcquireReply, err error,
	) {
		b.mu.Lock()
		b.acquired[i] = answer[lockagent.AcquireReply]{r, err}
		b.mu.Unlock()
		b.answers <- i
		runtime.Goexit() // which keeps no other from its answer
	}})
}

func (b *batch) wish(name lockagent.Name, number uint64) {
	b.acquire(lockagent.AcquireRequest{Name: name, Tenure: tenure(number), Lease: time.Minute})
}

func (b *batch) release(name lockagent.Name, number uint64) {
	i := len(b.items)
	req := script.ReleaseRequest{ReleaseRequest: lockagent.ReleaseRequest{Name: name, Tenure: tenure(number)}}
	of, slot := b.store.families[lockagent.PlainLock], b.store.slot(name)
	b.items = append(b.items, &releaseCall{req: req, of: of, slot: slot, done: func(
		r lockagent.ReleaseReply, err error,
	) {
		b.mu.Lock()
		b.released[i] = answer[lockagent.ReleaseReply]{r, err}
		b.mu.Unlock()
		b.answers <- i
		runtime.Goexit()
	}})
}

// travel returns the calls that the items were made as, when all are answered.
func (b *batch) travel() []*transport.Call {
	b.t.Helper()
	calls := slices.Clone((&packer{store: b.store}).pack(b.items))
	for _, c := range calls {
		b.store.lanes.Send(c)
	}
	for range b.items {
		waittest.Receive(b.t, "a call to be answered", b.answers)
	}
	if len(b.answers) > 0 {
		b.t.Error("a call was answered twice")
	}
	return calls
}

// expect compares the answers with words.
func (b *batch) expect(want ...string) {
	b.t.Helper()
	for i, want := range want {
		got := "nothing"
		if a, ok := b.acquired[i]; ok {
			got = said(a.err, a.reply.Granted, "granted", "held by "+a.reply.Holder)
		}
		if a, ok := b.released[i]; ok {
			got = said(a.err, a.reply.Released, "released", "was over")
		}
		if got != want {
			b.t.Errorf("call %d was answered %q, want %q", i, got, want)
		}
	}
}

func said(err error, yes bool, ifSo, ifNot string) string {
	for _, kind := range []error{
		lockagent.ErrWrongType, lockagent.ErrNotPermitted, lockagent.ErrWithdrawn, lockagent.ErrBadOption,
	} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	switch {
	case err != nil:
		return err.Error()
	case yes:
		return ifSo
	}
	return ifNot
}

// An error of one lock does not affect the locks that travel with it.
func TestNeighbours(t *testing.T) {
	server := redistest.Start(t)
	server.Do("SET", "value", "something else")
	server.Do("HSET", "theirs", "another:1", "1")
	s := openURL(t, server.URL())

	b := newBatch(t, s)
	b.wish("first", 1)
	b.wish("value", 1)
	b.wish("theirs", 1)
	far := lockagent.AcquireRequest{Name: "far", Tenure: tenure(1), Lease: time.Minute, Floor: lockagent.MaxToken - 1}
	b.acquire(far)
	b.wish("last", 1)
	b.travel()
	b.expect("granted", lockagent.ErrWrongType.Error(), "held by another:1", lockagent.ErrBadOption.Error(), "granted")

	b = newBatch(t, s)
	b.release("first", 1)
	b.release("value", 1)
	b.release("theirs", 1)
	b.release("last", 1)
	b.travel()
	b.expect("released", lockagent.ErrWrongType.Error(), "was over", "released")
	if got := server.Do("EXISTS", "first", "last"); got != int64(0) {
		t.Errorf("%v locks are still there", got)
	}
}

// A lock that the user may not touch fails the whole command.
func TestADeniedNeighbour(t *testing.T) {
	server := redistest.Start(t, redistest.WithUser("app", "app", "~orders/* ~lockagent_* &* +@all"))
	s := openURL(t, server.UserURL("app", "app"))
	b := newBatch(t, s)
	b.wish("orders/1", 1)
	b.wish("theirs", 1)
	b.wish("orders/2", 1)
	b.travel()
	b.expect("granted", lockagent.ErrNotPermitted.Error(), "granted")

	b = newBatch(t, s)
	b.release("orders/1", 1)
	b.release("theirs", 1)
	b.release("orders/2", 1)
	b.travel()
	b.expect("released", lockagent.ErrNotPermitted.Error(), "released")
}

// A user who may not publish in the channel of a lock has released it all the same.
func TestAReleaseThatMayWakeNobody(t *testing.T) {
	server := redistest.Start(t, redistest.WithUser("app", "app", "~* &* +@all"))
	s := openURL(t, server.UserURL("app", "app"))
	server.Do("ACL", "SETUSER", "app", "resetchannels", "&redisson_lock__channel:{heard}", "&lockagent_*")
	b := newBatch(t, s)
	b.wish("mute", 1)
	b.wish("heard", 1)
	b.travel()
	b = newBatch(t, s)
	b.release("mute", 1)
	b.release("heard", 1)
	b.travel()
	b.expect("released", "released")
	if others := b.released[0].reply.Others; others != -1 {
		t.Errorf("%d others were woken, want -1 for what is not known", others)
	}
}

// Each lock of a script has the lease and the floor that were asked for it.
func TestUnlikeLocksTogether(t *testing.T) {
	server := redistest.Start(t)
	s := openURL(t, server.URL())
	b := newBatch(t, s)
	floor := lockagent.Token(time.Now().Add(time.Hour).UnixMicro())
	wishes := []lockagent.AcquireRequest{
		{Name: "short", Lease: 10 * time.Second},
		{Name: "plain", Lease: time.Minute},
		{Name: "with a floor", Lease: time.Minute, Floor: floor},
		{Name: "plain", Lease: time.Minute},
		{Name: "again", Lease: 20 * time.Second},
	}
	for i, w := range wishes {
		w.Tenure = tenure(uint64(i + 1))
		b.acquire(w)
	}
	b.travel()
	b.expect("granted", "granted", "granted", "held by "+tenure(2).String(), "granted")
	for i, w := range wishes {
		if left := time.Duration(server.Do("PTTL", string(w.Name)).(int64)) * time.Millisecond; left > w.Lease ||
			left < w.Lease/2 {
			t.Errorf("%q has a lease of %v, want %v", w.Name, left, w.Lease)
		}
		if r := b.acquired[i].reply; r.Granted && r.Token <= w.Floor {
			t.Errorf("%q has token %d, want one above %d", w.Name, r.Token, w.Floor)
		}
	}
}

// What frees locks goes first, and where slots mean something each has a call of its own.
func TestCallsOfABatch(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 1)
	for name, s := range map[string]*Store{
		"server": openURL(t, redistest.Start(t).URL()), "Cluster": openURL(t, cluster.URL()),
	} {
		b := newBatch(t, s)
		// In a slot without a clock, what is not there may be forgotten.
		for _, name := range []lockagent.Name{"{a}", "{b}"} {
			req := lockagent.AcquireRequest{Name: name, Tenure: tenure(9), Lease: time.Minute}
			if _, err := storetest.Acquire(t, s, req); err != nil {
				t.Fatal(err)
			}
			if _, err := storetest.Release(t, s, lockagent.ReleaseRequest{Name: name, Tenure: tenure(9)}); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []lockagent.Name{"{a}1", "b", "{a}2", "{b}1", "{a}3"} {
			b.wish(name, 1)
			b.release(name, 1)
		}
		scripts := make(map[string]int)
		for _, c := range b.travel() {
			scripts[c.Script.Digest]++
			for _, key := range c.Keys {
				if s.room.Cluster() && hashslot.Of(key) != c.Slot {
					t.Errorf("%s: key %q is in slot %d, and the call in %d", name, key, hashslot.Of(key), c.Slot)
				}
			}
		}
		want := 1
		if s.room.Cluster() {
			want = 2
		}
		for _, n := range scripts {
			if n != want || len(scripts) != 2 {
				t.Errorf("%s: there were %v calls of each script, want %d of two", name, scripts, want)
			}
		}
		b.expect(slices.Repeat([]string{"granted", "was over"}, 5)...)
	}
}

// While a slot is on its way to another node, nothing is granted. Renewals travel together. Those that find their keys
// at one node are made all the same.
func TestRenewalsWhileASlotMigrates(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2)
	from := cluster.NodeOf("{a}")
	to := cluster.Nodes[0]
	if to == from {
		to = cluster.Nodes[1]
	}
	s := openURL(t, cluster.URL())
	b := newBatch(t, s)
	b.wish("{a}stays", 1)
	b.wish("{a}moves", 1)
	b.travel()
	b.expect("granted", "granted")
	finish := cluster.BeginMove("{a}", from, to)
	from.Do("MIGRATE", "127.0.0.1", strconv.Itoa(to.Port()), "{a}moves", "0", "60000")

	outcomes := make(map[lockagent.Name]chan error)
	renew := func() {
		for _, name := range []lockagent.Name{"{a}stays", "{a}moves"} {
			outcome := make(chan error, 1)
			outcomes[name] = outcome
			renewal := lockagent.RenewRequest{Name: name, Tenure: tenure(1), Lease: time.Minute}
			s.Renew(t.Context(), renewal, func(r lockagent.RenewReply, err error) {
				if err == nil && !r.Held {
					err = errors.New("not held any more")
				}
				outcome <- err
			})
		}
	}
	renew()
	if err := <-outcomes["{a}stays"]; err != nil {
		t.Errorf("beside a lock that has moved: %v", err)
	}
	if err := <-outcomes["{a}moves"]; !errors.Is(err, lockagent.ErrStoreUnavailable) {
		t.Errorf("the lock and the clock are at two nodes: %v", err)
	}
	request := lockagent.AcquireRequest{Name: "{a}free", Tenure: tenure(1), Lease: time.Minute}
	if r, err := storetest.Acquire(t, s, request); !errors.Is(err, lockagent.ErrStoreUnavailable) {
		t.Errorf("acquired %+v, %v", r, err)
	}
	finish()
	renew()
	for name, outcome := range outcomes {
		if err := <-outcome; err != nil {
			t.Errorf("after the move: %q: %v", name, err)
		}
	}
	b = newBatch(t, s)
	b.release("{a}moves", 1)
	b.wish("{a}free", 1)
	b.travel()
	b.expect("released", "granted")
}

// Tokens and times do not go back though the server has forgotten all, as long as one
// store remembers.
func TestTheClockOfAServerThatForgot(t *testing.T) {
	server := redistest.Start(t)
	s := openURL(t, server.URL())
	hour := strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(), 10)
	name, _ := s.incarnations.known(s.one)
	server.Do("ZADD", "lockagent_clock", "XX", hour, name) // as if the server's clock was set back since
	before, err := storetest.Acquire(t, s, lockagent.AcquireRequest{
		Name: "orders", Tenure: tenure(1), Lease: time.Minute,
	})
	if err != nil || before.At < lockagent.StoreTime(time.Now().Add(time.Hour/2).UnixMicro()) {
		t.Fatalf("Acquire = %+v, %v", before, err)
	}
	server.Do("FLUSHALL")
	after, err := storetest.Acquire(t, s, lockagent.AcquireRequest{
		Name: "orders", Tenure: tenure(2), Lease: time.Minute,
	})
	if err != nil || after.Token <= before.Token || after.At <= before.At || after.Clock == before.Clock {
		t.Errorf("Acquire = %+v after %+v, %v", after, before, err)
	}
	released, err := storetest.Release(t, s, lockagent.ReleaseRequest{Name: "orders", Tenure: tenure(2)})
	if err != nil || released.At < after.At {
		t.Errorf("Release = %+v after %+v, %v", released, after, err)
	}
}

// After a change of the incarnation the first release tells its last token, which the server may lack.
func TestTokensGivenInAnotherIncarnation(t *testing.T) {
	s := &Store{incarnations: newIncarnations()}
	s.one = s.incarnations.shard(0, false)
	given := func() lockagent.Token {
		past, _ := s.past(0)
		return past.Given
	}
	s.incarnations.observe(s.one, "1.a", "", 1, 0)
	s.clocks.note(0, "1.a", 7, 7)
	s.clocks.note(0, "", 8, 0)
	if got := given(); got != 7 {
		t.Errorf("given %d, want 7", got)
	}
	s.incarnations.observe(s.one, "1.b", "", 9, 0)
	if got := given(); got != 0 {
		t.Errorf("given %d before the failover is known as given", got)
	}
	s.clocks.note(0, "1.b", 10, 10)
	if got := given(); got != 10 {
		t.Errorf("given %d, want 10", got)
	}
}

package redisstore

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/redisstore/internal/transport"
)

const (
	one lockagent.AgentID = "11111111-1111-4111-8111-111111111111"
	two lockagent.AgentID = "22222222-2222-4222-8222-222222222222"
)

// batch is what the calls that travelled together were answered.
type batch struct {
	acquires []*acquireCall
	releases []*releaseCall
	packer   *packer // a new one if it is nil
	acquired []string
	released []string
}

func (b *batch) acquire(name lockagent.Name, agent lockagent.AgentID, number uint64) *acquireCall {
	i := len(b.acquired)
	b.acquired = append(b.acquired, "nothing")
	b.acquires = append(b.acquires, &acquireCall{
		req: lockagent.AcquireRequest{Name: name, Tenure: lockagent.Tenure{Agent: agent, Number: number}, Lease: time.Minute, Tokens: 1},
		done: func(r lockagent.AcquireReply, err error) {
			switch {
			case err != nil:
				b.acquired[i] = err.Error()
			case r.Granted:
				b.acquired[i] = "granted"
			default:
				b.acquired[i] = "held by " + r.Holder
			}
		},
	})
	return b.acquires[i]
}

func (b *batch) release(name lockagent.Name, agent lockagent.AgentID, number uint64) {
	i := len(b.released)
	b.released = append(b.released, "nothing")
	b.releases = append(b.releases, &releaseCall{
		req: lockagent.ReleaseRequest{Name: name, Tenure: lockagent.Tenure{Agent: agent, Number: number}},
		done: func(r lockagent.ReleaseReply, err error) {
			if b.released[i] = strconv.FormatBool(r.Released); err != nil {
				b.released[i] = err.Error()
			}
		},
	})
}

func (b *batch) items() (items []transport.Item) {
	for _, a := range b.acquires {
		items = append(items, a)
	}
	for _, d := range b.releases {
		items = append(items, d)
	}
	return items
}

// travel makes the calls, each kind in one script, and then those that have to be
// made once more.
func (b *batch) travel(t *testing.T, server *redistest.Server, user string) {
	t.Helper()
	option := rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true, DisableRetry: true, ForceSingleClient: true}
	if user != "" {
		option.Username, option.Password = user, user
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	p := b.packer
	if p == nil {
		p = newTestPacker()
	}
	var again []*transport.Call
	p.send = func(c *transport.Call) { again = append(again, c) }
	answer := func(c *transport.Call) {
		m, err := run(client, c.Script, c.Keys, c.Args)
		c.Done(m, transport.Error(err))
	}
	calls := p.pack(b.items())
	kinds := make(map[string]bool)
	for _, a := range b.acquires {
		kinds[fmt.Sprint("acquire for ", a.party())] = true
	}
	for _, d := range b.releases {
		kinds[fmt.Sprint("release for ", d.party())] = true
	}
	if len(calls) != len(kinds) {
		t.Fatalf("%d calls, want one to each of %v", len(calls), kinds)
	}
	for _, c := range calls {
		answer(c)
	}
	for _, c := range again {
		answer(c)
	}
}

func newTestPacker() *packer {
	return &packer{publish: "PUBLISH", countsOthers: true, subscriptions: transport.NewSubscriptions(new(transport.Servers)), incarnations: newIncarnations(false)}
}

func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("%s were answered %q, want %q", what, got, want)
			return
		}
	}
}

// What is wrong with one lock does not concern those that travel with it.
func TestNeighboursInABatch(t *testing.T) {
	server := redistest.Start(t)
	server.Do("SET", "value", "something else")
	server.Do("HSET", "theirs", "another:1", "1")
	server.Do("SET", "lockagent_token:{exhausted}", strconv.FormatUint(uint64(lockagent.MaxToken), 10))
	server.Do("SET", "lockagent_token:{spoilt}", "no number")
	server.Do("HSET", "lockagent_odd:"+string(one), "", "0000000000000000007:1", "withdrawn", "0000000000000000007:0:1000000:0")

	var b batch
	b.acquire("first", one, 1)
	b.acquire("value", one, 1)
	b.acquire("theirs", one, 1)
	b.acquire("exhausted", one, 1)
	b.acquire("spoilt", one, 1)
	b.acquire("withdrawn", one, 7)
	b.acquire("last", one, 1)
	b.travel(t, server, "")
	expect(t, "acquires", b.acquired, "granted", lockagent.ErrWrongType.Error(), "held by another:1", "lockagent: bad tokens", lockagent.ErrStoreUnavailable.Error(), lockagent.ErrWithdrawn.Error(), "granted")

	b = batch{}
	b.release("first", one, 1)
	b.release("value", one, 1)
	b.release("theirs", one, 1)
	b.release("withdrawn", one, 7)
	b.release("last", one, 1)
	b.travel(t, server, "")
	expect(t, "releases", b.released, "true", "false", "false", "false", "true")
	for i, key := range []string{"first", "last"} {
		if got := server.Do("EXISTS", key); got != int64(0) {
			t.Errorf("lock %d is still there", i)
		}
	}
}

// A lock that the user may not touch fails the whole command.
func TestADeniedNeighbourInABatch(t *testing.T) {
	server := redistest.Start(t, redistest.WithUser("app", "app", "~orders/* ~lockagent_* &* +@all"))
	var b batch
	b.acquire("orders/1", one, 1)
	b.acquire("theirs", one, 1)
	b.acquire("orders/2", one, 1)
	b.travel(t, server, "app")
	expect(t, "acquires", b.acquired, "granted", lockagent.ErrNotPermitted.Error(), "granted")

	b = batch{}
	b.release("orders/1", one, 1)
	b.release("theirs", one, 1)
	b.release("orders/2", one, 1)
	b.travel(t, server, "app")
	expect(t, "releases", b.released, "true", lockagent.ErrNotPermitted.Error(), "true")
}

// A user who may not publish in the channel of a lock has released it all the same.
func TestAReleaseThatMayWakeNobody(t *testing.T) {
	server := redistest.Start(t, redistest.WithUser("app", "app", "~* resetchannels &redisson_lock__channel:{heard} +@all"))
	var b batch
	b.acquire("mute", one, 1)
	b.acquire("heard", one, 1)
	b.travel(t, server, "app")
	b.release("mute", one, 1)
	b.release("heard", one, 1)
	b.acquires = nil
	b.releases[0].done = wrap(b.releases[0].done, func(r lockagent.ReleaseReply) {
		if r.Others != -1 {
			t.Errorf("%d others were woken, want -1 for what is not known", r.Others)
		}
	})
	b.travel(t, server, "app")
	expect(t, "releases", b.released, "true", "true")
}

func wrap(done func(lockagent.ReleaseReply, error), look func(lockagent.ReleaseReply)) func(lockagent.ReleaseReply, error) {
	return func(r lockagent.ReleaseReply, err error) {
		look(r)
		done(r, err)
	}
}

// Agents that share a store may ask for one lock at once.
func TestOneLockTwiceInABatch(t *testing.T) {
	server := redistest.Start(t)
	var b batch
	b.acquire("orders", one, 1)
	b.acquire("orders", two, 1)
	b.travel(t, server, "")
	expect(t, "acquires", b.acquired, "granted", "held by "+string(one)+":1")

	// A repeated one is granted again, with a greater token.
	b = batch{}
	var tokens []lockagent.Token
	for range 2 {
		a := b.acquire("orders", one, 1)
		a.done = func(r lockagent.AcquireReply, _ error) { tokens = append(tokens, r.Token) }
	}
	b.travel(t, server, "")
	if len(tokens) != 2 || tokens[1] <= tokens[0] {
		t.Errorf("tokens %d, want the second greater", tokens)
	}

	// The greater of two tenures is remembered, whichever comes first.
	b = batch{}
	b.release("orders", one, 9)
	b.release("orders", one, 1)
	b.release("orders", two, 1)
	b.travel(t, server, "")
	expect(t, "releases", b.released, "false", "true", "false")
	var records []string
	for _, key := range []string{"lockagent_even:", "lockagent_odd:"} {
		if record, ok := server.Do("HGET", key+string(one), "orders").(string); ok {
			records = append(records, record)
		}
	}
	if len(records) != 1 || !strings.HasPrefix(records[0], "0000000000000000009:0:") {
		t.Errorf("the last release is %q, want that of tenure 9", records)
	}
}

// Constants that a script has are those of the package.
func TestConstantsInScripts(t *testing.T) {
	for _, c := range []struct{ line, source string }{
		{fmt.Sprintf("local greatest_token = %d\n", lockagent.MaxToken), acquireSource},
		{fmt.Sprintf("local greatest_token = %d\n", lockagent.MaxToken), releaseSource},
		{fmt.Sprintf("local token_retention = %d ", TokenRetention.Milliseconds()), acquireSource},
		{fmt.Sprintf("local token_retention = %d ", TokenRetention.Milliseconds()), releaseSource},
		{"local few_tokens = 8 ", acquireSource},
		{"local few_tokens = 8 ", releaseSource},
		{fmt.Sprintf("local queue_retention = %d ", QueueRetention.Milliseconds()), acquireSource},
		{fmt.Sprintf("local release_retention = %.0f ", ReleaseRetention.Seconds()), releaseSource},
		{fmt.Sprintf("local pass_lease = '%d' ", lockagent.PassLease.Milliseconds()), releaseSource},
	} {
		if !strings.Contains(c.source, c.line) {
			t.Errorf("a script lacks the line %q", c.line)
		}
	}
}

// In a Cluster the keys of a command are in one slot.
func TestSlotsInABatch(t *testing.T) {
	p := newTestPacker()
	p.cluster = true
	var b batch
	for _, name := range []lockagent.Name{"{a}1", "b", "{a}2", "{b}1", "{a}3"} {
		b.acquire(name, one, 1)
		b.release(name, one, 1)
	}
	for i := range b.acquires {
		s := transport.Slot(string(b.acquires[i].req.Name))
		b.acquires[i].slot, b.releases[i].slot = s, s
	}
	var sizes []int
	for _, c := range p.pack(b.items()) {
		for _, key := range c.Keys {
			if transport.Slot(key) != transport.Slot(c.Keys[0]) {
				t.Errorf("keys %q are in two slots", c.Keys)
			}
		}
		sizes = append(sizes, len(c.Keys))
	}
	if want := []int{2 + 2, 3 + 2, 2*2 + 3, 2*3 + 3}; !reflect.DeepEqual(sizes, want) {
		t.Errorf("the calls have %d keys, want %d", sizes, want)
	}
}

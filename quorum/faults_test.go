package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
	"github.com/lockagent/lockagent/quorum"
	"github.com/lockagent/lockagent/storetest"
)

// guest is an agent with a quorum of its own.
type guest struct {
	t       *testing.T
	store   *quorum.Store
	nodes   memories // its connections
	id      lockagent.AgentID
	notices []quorum.Notice
}

var errDown = errors.New("down")

func newGuest(t *testing.T, all memories) *guest {
	t.Helper()
	g := &guest{t: t, id: lockagent.NewAgentID()}
	g.store, g.nodes = all.opened(t, quorum.Config{Notify: func(n quorum.Notice) { g.notices = append(g.notices, n) }})
	return g
}

func (g *guest) tenure(number uint64) lockagent.Tenure {
	return lockagent.Tenure{Agent: g.id, Number: number}
}

func (g *guest) try(number uint64) (lockagent.AcquireReply, error) {
	g.t.Helper()
	return storetest.Acquire(g.t, g.store, lockagent.AcquireRequest{
		Name: orders, Tenure: g.tenure(number), Lease: 30 * time.Second,
	})
}

func (g *guest) acquire(number uint64) lockagent.AcquireReply {
	g.t.Helper()
	reply, err := g.try(number)
	if err != nil || !reply.Granted {
		g.t.Fatalf("Acquire = %+v, %v; want it granted", reply, err)
	}
	return reply
}

func (g *guest) busy(number uint64) lockagent.AcquireReply {
	g.t.Helper()
	reply, err := g.try(number)
	if err != nil || reply.Granted {
		g.t.Fatalf("Acquire = %+v, %v; want it refused", reply, err)
	}
	return reply
}

func (g *guest) renew(number uint64, held bool) {
	g.t.Helper()
	reply, err := storetest.Renew(g.t, g.store, lockagent.RenewRequest{
		Name: orders, Tenure: g.tenure(number), Lease: 30 * time.Second,
	})
	if err != nil || reply.Held != held {
		g.t.Fatalf("Renew = %+v, %v; want held %t", reply, err, held)
	}
	synctest.Wait()
}

func (g *guest) end(req lockagent.ReleaseRequest) {
	g.t.Helper()
	req.Name = orders
	if reply, err := storetest.Release(g.t, g.store, req); err != nil || !reply.Released {
		g.t.Fatalf("Release = %+v, %v; want it released", reply, err)
	}
}

func (g *guest) release(number uint64) {
	g.t.Helper()
	g.end(lockagent.ReleaseRequest{Tenure: g.tenure(number)})
}

func (g *guest) unavailable(err error) {
	g.t.Helper()
	if !errors.Is(err, lockagent.ErrStoreUnavailable) || lockagent.Definite(err) {
		g.t.Fatalf("error %v; want ErrStoreUnavailable", err)
	}
}

// holders expects the holders of the lock at the nodes: names of agents, or "-".
func (all memories) holders(t *testing.T, want string, guests map[string]*guest) {
	t.Helper()
	synctest.Wait()
	var got []string
	for _, m := range all {
		seen, err := storetest.Inspect(t, m, orders)
		if err != nil {
			t.Fatal(err)
		}
		name := "-"
		if seen.Held {
			name = "another"
		}
		for n, g := range guests {
			if strings.HasPrefix(seen.Holder, string(g.id)) {
				name = n
			}
		}
		got = append(got, name)
	}
	if strings.Join(got, " ") != want {
		t.Errorf("the nodes are held by %s; want %s", got, want)
	}
}

func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// minorities returns the sets of nodes that a quorum can do without.
func minorities(n int) (all [][]int) {
	for i := range n {
		all = append(all, []int{i})
		for j := range i {
			if n == 5 {
				all = append(all, []int{j, i})
			}
		}
	}
	return all
}

func TestAnyMinorityDown(t *testing.T) {
	faults := map[string]func(*memstore.Store){
		"down":   func(m *memstore.Store) { m.SetOutage(errDown) },
		"silent": func(m *memstore.Store) { m.Hang() },
	}
	for fault, strike := range faults {
		for _, n := range []int{3, 5} {
			for _, away := range minorities(n) {
				bubble(t, fmt.Sprintf("%v of %d %s", away, n, fault), func(t *testing.T) {
					all := newMemories(n)
					one, two := newGuest(t, all), newGuest(t, all)
					for _, i := range away {
						strike(one.nodes[i])
						strike(two.nodes[i])
					}
					began := time.Now()
					var last lockagent.Token
					for number := uint64(1); number <= 5; number++ {
						for _, g := range []*guest{one, two} {
							reply := g.acquire(number)
							if reply.Token <= last {
								t.Errorf("token %d after %d", reply.Token, last)
							}
							last = reply.Token
							g.renew(number, true)
							if seen, err := storetest.Inspect(t, two.store, orders); err != nil || seen.Holder != g.tenure(number).String() {
								t.Errorf("Inspect = %+v, %v", seen, err)
							}
							g.release(number)
						}
					}
					one.acquire(6)
					two.busy(6)
					if took := time.Since(began); took > 0 {
						t.Errorf("all that took %v: something waited for a node", took)
					}
					if broken, err := storetest.Break(t, two.store, orders); err != nil || !broken {
						t.Errorf("Break = %t, %v", broken, err)
					}
					two.acquire(7)
				})
			}
		}
	}
}

func TestNoMajority(t *testing.T) {
	for fault, strike := range map[string]func(*memstore.Store){
		"down":   func(m *memstore.Store) { m.SetOutage(errDown) },
		"silent": func(m *memstore.Store) { m.Hang() },
	} {
		bubble(t, fault, func(t *testing.T) {
			all := newMemories(3)
			one, two := newGuest(t, all), newGuest(t, all)
			one.acquire(1)
			strike(one.nodes[0])
			strike(one.nodes[1])
			began := time.Now()
			_, err := storetest.Renew(t, one.store, lockagent.RenewRequest{
				Name: orders, Tenure: one.tenure(1), Lease: time.Second,
			})
			one.unavailable(err)
			_, err = storetest.Release(t, one.store, lockagent.ReleaseRequest{Name: orders, Tenure: one.tenure(1)})
			one.unavailable(err)
			_, err = storetest.Inspect(t, one.store, orders)
			one.unavailable(err)
			_, err = storetest.Time(t, one.store)
			one.unavailable(err)
			if broken, err := storetest.Break(t, two.store, orders); err != nil || !broken {
				t.Fatal(broken, err)
			}
			_, err = one.try(2)
			one.unavailable(err)
			if took := time.Since(began); took > 5*quorum.DefaultNodeTimeout {
				t.Errorf("the calls took %v", took)
			}
			all.holders(t, "- - -", nil) // the node that granted the attempt does not keep others out
			two.acquire(1)
		})
	}
}

// Two agents that see different majorities meet at a node.
func TestPartition(t *testing.T) {
	bubble(t, "in the middle", func(t *testing.T) {
		all := newMemories(3)
		a, b := newGuest(t, all), newGuest(t, all)
		guests := map[string]*guest{"a": a, "b": b}
		a.nodes[2].SetOutage(errDown)
		b.nodes[0].SetOutage(errDown)
		var last lockagent.Token
		for number := uint64(1); number <= 10; number++ {
			granted := a.acquire(number)
			if granted.Token <= last {
				t.Errorf("token %d after %d", granted.Token, last)
			}
			all.holders(t, "a a -", guests)
			if reply := b.busy(number); reply.Holder != a.tenure(number).String() {
				t.Errorf("busy = %+v", reply)
			}
			all.holders(t, "a a -", guests) // b has given back its minority
			a.end(lockagent.ReleaseRequest{Tenure: a.tenure(number), Last: granted.Token})
			last = b.acquire(number + 100).Token
			if last <= granted.Token {
				t.Errorf("token %d after %d", last, granted.Token)
			}
			all.holders(t, "- b b", guests)
			b.release(number + 100)
		}
	})
}

// The clocks of the nodes differ, and each tenure sees another majority.
func TestTokensGrowOverDifferentMajorities(t *testing.T) {
	for name, skew := range map[string][]time.Duration{
		"none":                    {0, 0, 0},
		"a little":                {0, 90 * time.Microsecond, 500 * time.Microsecond},
		"milliseconds":            {0, 3 * time.Millisecond, -5 * time.Millisecond},
		"one is an hour ahead":    {time.Hour, 0, 0},
		"one is hours behind":     {10 * time.Hour, 0, 10 * time.Hour},
		"all by hours":            {0, 10 * time.Hour, 20 * time.Hour},
		"one is ahead by a year":  {365 * 24 * time.Hour, 0, 0},
		"one is behind by a year": {365 * 24 * time.Hour, 0, 365 * 24 * time.Hour},
	} {
		for ending, end := range map[string]func(*guest, uint64, lockagent.Token){
			"released": func(g *guest, number uint64, last lockagent.Token) {
				g.end(lockagent.ReleaseRequest{Tenure: g.tenure(number), Last: last})
			},
			"broken":    func(g *guest, number uint64, _ lockagent.Token) { _, _ = storetest.Break(g.t, g.store, orders) },
			"abandoned": func(*guest, uint64, lockagent.Token) { time.Sleep(30 * time.Second) },
		} {
			bubble(t, name+", "+ending, func(t *testing.T) {
				all := newMemories(3)
				for i, m := range all {
					m.StepClock(max(skew[i], 0))
				}
				g := newGuest(t, all)
				first := time.Now()
				var begin, last lockagent.Token
				for number := range uint64(60) {
					away := int(number) % 4 // sometimes none
					if strings.Contains(name, "year") {
						away = 3
					}
					if away < 3 {
						g.nodes[away].SetOutage(errDown)
					}
					reply := g.acquire(number + 1)
					if reply.Token <= last {
						t.Fatalf("token %d after %d, of tenure %d", reply.Token, last, number)
					}
					// A hold takes longer than a microsecond, so it may use one token more.
					time.Sleep(10 * time.Microsecond)
					if last = reply.Token + 5; number == 3 {
						begin, first = reply.Token, time.Now()
					}
					end(g, number+1, last)
					if away < 3 {
						g.nodes[away].SetOutage(nil)
					}
				}
				// The clocks follow the fastest of them, and do not run away.
				if ran, passed := time.Duration(last-begin)*time.Microsecond, time.Since(first); ran > passed+time.Second {
					t.Errorf("the tokens ran by %v in %v", ran, passed)
				}
			})
		}
	}
}

// A node that answers late may grant an attempt that is over.
func TestLateMinority(t *testing.T) {
	bubble(t, "of an attempt that found the lock busy", func(t *testing.T) {
		all := newMemories(3)
		a, b := newGuest(t, all), newGuest(t, all)
		a.nodes[2].SetOutage(errDown)
		a.acquire(1)
		resume := b.nodes[2].Hang()
		b.busy(1)
		a.release(1)
		resume()
		all.holders(t, "- - -", nil)
		a.acquire(2)
	})
	bubble(t, "that arrives when its call has failed", func(t *testing.T) {
		all := newMemories(3)
		a, b := newGuest(t, all), newGuest(t, all)
		a.nodes[2].SetOutage(errDown)
		a.acquire(1)
		b.nodes[2].SetBound(time.Second)
		resume := b.nodes[2].Hang()
		b.busy(1)
		time.Sleep(1500 * time.Millisecond)
		resume() // first the Acquire takes effect, and then the Release
		all.holders(t, "a a -", map[string]*guest{"a": a})
		a.release(1)
		// The number is spent there. Two nodes more would grant it.
		b.acquire(1)
		b.release(1)
		b.nodes[0].SetOutage(errDown)
		if _, err := b.try(1); !errors.Is(err, lockagent.ErrWithdrawn) {
			t.Errorf("error %v; want ErrWithdrawn", err)
		}
		all.holders(t, "- - -", nil)
		b.acquire(2)
	})
	bubble(t, "of a tenure that was released", func(t *testing.T) {
		all := newMemories(3)
		a := newGuest(t, all)
		a.nodes[2].SetBound(time.Second)
		resume := a.nodes[2].Hang()
		a.acquire(1)
		time.Sleep(2 * time.Second) // the call has failed, and the agent does not know
		a.release(1)
		resume()
		all.holders(t, "- - -", nil)
	})
	bubble(t, "of a tenure that is held", func(t *testing.T) {
		all := newMemories(3)
		a := newGuest(t, all)
		resume := a.nodes[2].Hang()
		a.acquire(1)
		resume()
		all.holders(t, "a a a", map[string]*guest{"a": a})
		a.release(1)
		all.holders(t, "- - -", nil)
	})
}

// An attempt that takes longer than its lease would be granted leases that are over.
func TestTooLate(t *testing.T) {
	bubble(t, "too late", func(t *testing.T) {
		all := newMemories(3)
		g := newGuest(t, all)
		resume := [2]func(){g.nodes[1].Hang(), g.nodes[2].Hang()}
		time.AfterFunc(495*time.Millisecond, func() {
			resume[0]()
			resume[1]()
		})
		_, err := storetest.Acquire(t, g.store, lockagent.AcquireRequest{
			Name: orders, Tenure: g.tenure(1), Lease: 500 * time.Millisecond,
		})
		g.unavailable(err)
		time.Sleep(time.Millisecond)
		all.holders(t, "- - -", nil)
	})
}

func TestMajorityThatForgets(t *testing.T) {
	bubble(t, "a majority", func(t *testing.T) {
		all := newMemories(3)
		g := newGuest(t, all)
		var told []lockagent.Reset
		cancel := g.store.OnReset(func(r lockagent.Reset) { told = append(told, r) })
		g.acquire(1)
		all[0].Reset()
		if len(told) != 0 {
			t.Errorf("told %+v, when one node has forgotten", told)
		}
		all[2].Reset()
		if len(told) != 1 || told[0].Reason == "" {
			t.Errorf("told %+v; want one reset", told)
		}
		g.renew(1, false)
		time.Sleep(time.Second)
		all.holders(t, "- - -", nil) // what is left was given back
		_, err := g.try(2)
		g.unavailable(err)
		cancel()
		time.Sleep(quorum.DefaultLongestLease + time.Second)
		g.acquire(3)
		if all[0].Reset(); len(told) != 1 {
			t.Errorf("told %+v after cancel", told)
		}
	})
}

// A tenure that not all nodes have is repaired, but only while a majority has it.
func TestThinTenure(t *testing.T) {
	bubble(t, "is repaired", func(t *testing.T) {
		all := newMemories(3)
		a := newGuest(t, all)
		guests := map[string]*guest{"a": a}
		a.nodes[2].SetOutage(errDown)
		first := a.acquire(1)
		a.nodes[2].SetOutage(nil)
		all.holders(t, "a a -", guests)
		a.renew(1, true)
		all.holders(t, "a a a", guests)
		if want := []quorum.Notice{
			{Kind: quorum.TenureThin, Name: orders, Tenure: a.tenure(1), Holding: 2},
			{Kind: quorum.TenureRepaired, Name: orders, Tenure: a.tenure(1), Node: 2},
		}; !slices.Equal(a.notices, want) {
			t.Errorf("notices %+v; want %+v", a.notices, want)
		}
		all[0].Reset()
		a.renew(1, true) // also at the node that forgot it
		all.holders(t, "a a a", guests)
		a.end(lockagent.ReleaseRequest{Tenure: a.tenure(1), Last: first.Token})
		all.holders(t, "- - -", guests)
	})
	bubble(t, "is over without a majority", func(t *testing.T) {
		all := newMemories(3)
		a, b := newGuest(t, all), newGuest(t, all)
		a.acquire(1)
		for _, m := range all[:2] {
			if broken, err := storetest.Break(t, m, orders); err != nil || !broken {
				t.Fatal(broken, err)
			}
		}
		a.renew(1, false)
		time.Sleep(time.Second)
		all.holders(t, "- - -", nil)
		b.acquire(1)
	})
}

// The agent is told of a break when a majority is broken, and looks after its tenure before that.
func TestBreakAtSomeNodes(t *testing.T) {
	bubble(t, "one after the other", func(t *testing.T) {
		all := newMemories(3)
		a := newGuest(t, all)
		heard := storetest.Listen(t, a.store, a.id)
		defer heard.Cancel()
		a.acquire(1)
		_, _ = storetest.Break(t, all[0], orders)
		heard.Await(lockagent.MessagesMissed, "", lockagent.Tenure{})
		if n := heard.Count(lockagent.MessageBroken); n != 0 {
			t.Errorf("told %d times that the lock is broken, which a majority has", n)
		}
		a.renew(1, true)
		_, _ = storetest.Break(t, all[0], orders)
		_, _ = storetest.Break(t, all[1], orders)
		heard.Await(lockagent.MessageBroken, orders, a.tenure(1))
		time.Sleep(time.Second)
		all.holders(t, "- - -", nil)
	})
}

// An agent ends if another one with its identity came first at a single node, also if a majority of the nodes finds it
// alone: there the other one may be cut off. So of two agents that start at the same moment both may end.
func TestTwinAtOneNode(t *testing.T) {
	bubble(t, "came first", func(t *testing.T) {
		all := newMemories(3)
		a := newGuest(t, all)
		defer storetest.Listen(t, all[2], a.id).Cancel()
		heard := storetest.Listen(t, a.store, a.id)
		defer heard.Cancel()
		heard.Await(lockagent.MessageTwin, "", lockagent.Tenure{})
		if n := heard.Count(lockagent.MessageAlone); n == 0 {
			t.Error("no majority finds the agent alone")
		}
	})
}

func TestOpen(t *testing.T) {
	one, two := memstore.New(), memstore.New()
	for name, nodes := range map[string][]lockagent.Store{
		"none":            nil,
		"two":             {one, two},
		"four":            {one, two, memstore.New(), memstore.New()},
		"one of them nil": {one, two, nil},
		"one store twice": {one, two, one.Share()},
	} {
		if _, err := quorum.Open(nodes...); !errors.Is(err, lockagent.ErrBadOption) {
			t.Errorf("%s: error %v; want ErrBadOption", name, err)
		}
	}
	for _, config := range []quorum.Config{
		{LongestLease: time.Millisecond},
		{LongestLease: lockagent.MaxLease + 1},
		{NodeTimeout: -1},
	} {
		if _, err := config.Open(one, two, memstore.New()); !errors.Is(err, lockagent.ErrBadOption) {
			t.Errorf("%+v: error %v; want ErrBadOption", config, err)
		}
	}
}

func TestRequestsThatAQuorumRefuses(t *testing.T) {
	g := newGuest(t, newMemories(3))
	req := lockagent.AcquireRequest{Name: orders, Tenure: g.tenure(1), Lease: quorum.DefaultLongestLease + 1}
	if _, err := storetest.Acquire(t, g.store, req); !errors.Is(err, lockagent.ErrBadOption) {
		t.Errorf("a lease that is too long: %v", err)
	}
	req.Lease = time.Second
	for _, kind := range lockagent.LockKinds() {
		req.Kind = kind
		if reply, err := storetest.Acquire(t, g.store, req); reply.Granted != (kind == lockagent.PlainLock) ||
			errors.Is(err, lockagent.ErrBadOption) == reply.Granted {
			t.Errorf("a lock of the kind %s: %+v, %v", kind, reply, err)
		}
	}
}

// refusing is a node that does not answer some Acquires.
type refusing struct {
	*memstore.Store
	when func(lockagent.AcquireRequest) bool
}

func (r refusing) Acquire(ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error)) {
	if r.when(req) {
		done(lockagent.AcquireReply{}, lockagent.ErrStoreUnavailable)
		return
	}
	r.Store.Acquire(ctx, req, done)
}

// A token that a minority knows could be given out again.
func TestAMajorityKnowsTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newMemories(3)
		all[0].StepClock(time.Hour)
		again := func(req lockagent.AcquireRequest) bool { return req.Floor > 0 }
		s, err := quorum.Open(all[0].Share(), refusing{all[1].Share(), again}, refusing{all[2].Share(), again})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		req := lockagent.AcquireRequest{Name: orders, Tenure: lockagent.Tenure{Agent: "agent", Number: 1}, Lease: time.Second}
		if reply, err := storetest.Acquire(t, s, req); !errors.Is(err, lockagent.ErrStoreUnavailable) {
			t.Errorf("Acquire = %+v, %v; want ErrStoreUnavailable", reply, err)
		}
		all.holders(t, "- - -", nil)
	})
}

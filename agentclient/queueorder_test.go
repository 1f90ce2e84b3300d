package agentclient

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// host is a daemon with one lock, and others who want it. What it is told and what it tells takes time.
type host struct {
	t      *testing.T
	c      *clocked
	said   []*lockagentv1.Command
	tells  []func()
	claims []*hosted // the first has the lock
	most   int       // holds of a claim
	token  lockagent.Token
	refs   map[uint64]*hosted
	all    []*hosted
}

type hosted struct {
	ref         uint64
	secret      string
	first, last lockagent.Token
	holds       int
	foreign     bool
	until       time.Time // when its wait passes; zero if that is no matter of the daemon
	linked      bool      // the client has told of it over the present link
	dead        bool      // released or lost: nothing may begin under it any more
	lost        bool      // and nobody has told the client
}

func (h *host) hear() {
	h.c.mu.Lock()
	for _, x := range h.c.commands {
		if x.GetRelease() != nil && h.refs[x.GetRef()] != nil { // from now on it may arrive
			h.refs[x.GetRef()].dead = true
		}
	}
	h.said = append(h.said, h.c.commands...)
	h.c.commands = nil
	h.c.mu.Unlock()
}

func (h *host) tellGrant(x *hosted) {
	ref := x.ref
	if x.linked {
		h.tells = append(h.tells, func() { h.c.grants(ref, x.first, x.holds) })
	}
}

// expire ends the claims whose wait has passed.
func (h *host) expire() {
	for _, o := range slices.Clone(h.claims) {
		if o.first != 0 || o.until.IsZero() || time.Now().Before(o.until) {
			continue
		}
		h.end(o)
		if o.linked {
			ref := o.ref
			h.tells = append(h.tells, func() { h.c.timesOut(ref, 0) })
		}
	}
}

// work does the oldest command.
func (h *host) work() {
	h.expire()
	if len(h.said) == 0 {
		return
	}
	x := h.said[0]
	h.said = h.said[1:]
	known := func(secret string) *hosted {
		i := slices.IndexFunc(h.claims, func(o *hosted) bool { return o.secret == secret && !o.foreign })
		if i < 0 {
			return nil
		}
		return h.claims[i]
	}
	switch {
	case x.GetAcquire() != nil:
		o := known(x.GetAcquire().GetSecret())
		if o == nil {
			o = &hosted{secret: x.GetAcquire().GetSecret(), holds: min(max(1, int(x.GetAcquire().GetHolds())), h.most)}
			if wait := x.GetAcquire().GetWait(); wait != nil {
				o.until = time.Now().Add(wait.AsDuration())
			}
			h.claims, h.all = append(h.claims, o), append(h.all, o)
		} else if o.first != 0 {
			defer h.tellGrant(o)
		}
		o.ref = x.GetRef()
		h.refs[o.ref], o.linked = o, true
	case x.GetAttach() != nil:
		o := known(x.GetAttach().GetSecret())
		if o == nil {
			h.tells = append(h.tells, func() {
				h.c.hear(&lockagentv1.LinkEvent{
					Ref: x.GetRef(), What: &lockagentv1.LinkEvent_Refused{Refused: failed(refusal.ErrNoClaim)},
				})
			})
			break
		}
		o.ref = x.GetRef()
		h.refs[o.ref], o.linked = o, true
		if o.first != 0 {
			h.tellGrant(o)
		}
	case x.GetRelease() != nil:
		if o := h.refs[x.GetRef()]; o != nil {
			h.end(o)
		}
		h.tells = append(h.tells, func() {
			h.c.hear(&lockagentv1.LinkEvent{
				Ref: x.GetRef(), What: &lockagentv1.LinkEvent_Released{Released: &lockagentv1.Failure{}},
			})
		})
	}
	h.pass()
}

func (h *host) end(o *hosted) {
	o.dead = true
	h.claims = slices.DeleteFunc(h.claims, func(x *hosted) bool { return x == o })
}

// pass grants the lock to the first.
func (h *host) pass() {
	if len(h.claims) > 0 && h.claims[0].first == 0 {
		o := h.claims[0]
		o.first, o.last = h.token+1, h.token+lockagent.Token(o.holds)
		h.token = o.last
		h.tellGrant(o)
	}
}

// of is the claim with a token.
func (h *host) of(token lockagent.Token) *hosted {
	i := slices.IndexFunc(h.all, func(o *hosted) bool { return o.first <= token && token <= o.last })
	if i < 0 {
		h.t.Fatalf("nobody was granted token %d", token)
	}
	return h.all[i]
}

// has reports whether the agent has a claim with a secret.
func (c *clocked) has(secret string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range c.claims {
		if x.Secret == secret {
			return true
		}
	}
	return false
}

// asker is one request.
type asker struct {
	out    <-chan lockagent.Grant
	cancel context.CancelFunc
	grant  lockagent.Grant
	until  time.Time // when its wait passes
	waits  bool      // for a bounded time
	gone   bool      // cancelled, or timed out
}

// Requests with and without a wait, releases, cancellations, losses and restarts of the daemon, in a random order, with
// other processes that want the lock. The following is always true:
//
//   - At most one request holds the lock, and under a claim that has the lock, unless nobody has told of its loss yet.
//   - Nobody holds the lock by a claim whose release was sent.
//   - Tokens grow, and each is granted once.
//   - Requests are granted in the order in which they came, unless somebody has waited for long.
//   - Nobody is denied, unless its own wait has passed.
//   - When all leave, everybody else has been granted the lock, and nothing is left.
func TestQueueInAnyOrder(t *testing.T) { anyOrders(t, 100) }

func anyOrders(t *testing.T, seeds uint64) {
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) { anyOrder(t, seed) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func anyOrder(t *testing.T, seed uint64) {
	c := newClocked()
	h := &host{t: t, c: c, refs: make(map[uint64]*hosted), token: 100}
	r := rand.New(rand.NewPCG(seed, 0))
	h.most = []int{2, 3, 64}[r.IntN(3)]
	var askers []*asker
	var last lockagent.Token
	ordered, served, handed := true, 0, 0
	check := func() {
		t.Helper()
		synctest.Wait()
		h.hear()
		held := 0
		for i, a := range askers {
			if a.grant.Token() == 0 {
				select {
				case g, ok := <-a.out:
					if !ok || g.Err() != nil {
						if !a.gone && !(a.waits && errors.Is(g.Err(), lockagent.ErrTimeout)) {
							t.Fatalf("request %d was denied: %v", i, g.Err())
						}
						if !a.gone && time.Now().Before(a.until) {
							t.Fatalf("request %d was denied before its wait had passed", i)
						}
						a.out, a.gone = nil, true
						break
					}
					if g.Token() <= last {
						t.Fatalf("token %d after %d", g.Token(), last)
					}
					if ordered && slices.ContainsFunc(askers[:i], func(o *asker) bool { return !o.gone && o.grant.Token() == 0 }) {
						t.Fatalf("request %d was granted before an older one", i)
					}
					a.grant, last = g, g.Token()
					served++
					if o := h.of(last); o.first != last {
						handed++
					}
				default:
				}
			}
			if a.grant.Held() {
				held++
				if o := h.of(a.grant.Token()); o.dead && !o.lost || !o.dead && h.claims[0] != o {
					t.Fatalf("request %d holds the lock by a claim that does not: %+v", i, o)
				}
			}
		}
		if held > 1 {
			t.Fatalf("%d requests hold the lock", held)
		}
	}
	tell := func() {
		if len(h.tells) > 0 {
			said := h.tells[0]
			h.tells = h.tells[1:]
			said()
		}
	}
	one := func(ok func(*asker) bool) *asker {
		var some []*asker
		for _, a := range askers {
			if ok(a) {
				some = append(some, a)
			}
		}
		if len(some) == 0 {
			return nil
		}
		return some[r.IntN(len(some))]
	}
	holds := func(a *asker) bool { return a.grant.Held() }
	for range 300 {
		switch r.IntN(14) {
		case 0, 1, 2:
			ctx, cancel := context.WithCancel(context.Background())
			req := actor.Request{Owner: lockagent.Owner(fmt.Sprint("owner", len(askers)))}
			if r.IntN(2) == 0 {
				req.Wait = time.Duration(
					1 + r.Int64N(int64([]time.Duration{2 * handOnTime, 2 * patienceInQueue, time.Hour}[r.IntN(3)])),
				)
			}
			askers = append(askers, &asker{
				out: c.Acquire(ctx, "door", req), cancel: cancel, waits: req.Wait > 0, until: time.Now().Add(req.Wait),
			})
		case 3, 4, 5, 6:
			if a := one(holds); a != nil {
				_ = a.grant.ReleaseAsync(t.Context())
			}
		case 7:
			if r.IntN(4) == 0 {
				if a := one(func(a *asker) bool { return a.grant.Token() == 0 && !a.gone }); a != nil {
					a.gone = true
					a.cancel()
				}
			}
		case 8:
			time.Sleep(time.Duration(r.Int64N(int64(handOnTime))))
		case 9:
			if r.IntN(20) == 0 {
				time.Sleep(patienceInQueue + time.Duration(r.Int64N(int64(15*time.Second)))) // a deadline may pass
				ordered = false
			}
		case 10:
			h.claims = append(h.claims, &hosted{foreign: true, holds: 1})
			h.all = append(h.all, h.claims[len(h.claims)-1])
			h.pass()
		case 11:
			if len(h.claims) > 0 && h.claims[0].foreign {
				h.end(h.claims[0])
				h.pass()
			}
		case 12:
			if r.IntN(4) == 0 && len(h.claims) > 0 && h.claims[0].first != 0 && !h.claims[0].foreign {
				o := h.claims[0]
				h.end(o)
				o.lost = true
				if o.linked { // else the client hears of it when it attaches
					h.tells = append(h.tells, func() {
						o.lost = false
						c.breaks(o.ref)
					})
				}
				h.pass()
			}
		case 13:
			if r.IntN(8) == 0 { // the daemon starts anew
				_ = c.unlinked(errEnded)
				h.said, h.tells = nil, nil
				for _, o := range h.all { // what was not told is not told any more, and what was not heard never comes
					o.linked = false
					if slices.Contains(h.claims, o) {
						o.dead = false
					}
				}
				check()
				c.resume()
				for _, o := range slices.Clone(h.claims) { // the grace passes for those that the client has forgotten
					if !o.foreign && !c.has(o.secret) {
						h.end(o)
					}
				}
				h.pass()
			}
		}
		check()
		for range r.IntN(4) {
			if r.IntN(2) == 0 {
				h.work()
			} else {
				tell()
			}
			check()
		}
	}
	ordered = false
	for range 10 * len(askers) { // all leave
		time.Sleep(time.Millisecond) // a client pauses before it asks again
		if a := one(holds); a != nil {
			_ = a.grant.ReleaseAsync(t.Context())
		}
		for len(h.claims) > 0 && h.claims[0].foreign {
			h.end(h.claims[0])
			h.pass()
		}
		check()
		h.work()
		tell()
		check()
	}
	time.Sleep(time.Minute)
	check()
	for i, a := range askers {
		a.cancel()
		if a.grant.Token() == 0 && !a.gone {
			t.Fatalf("request %d was forgotten", i)
		}
	}
	c.wantEmpty(t)
	if seed == 0 && (served < 20 || handed < 5) {
		t.Errorf("%d requests were granted the lock, %d of them by the one before", served, handed)
	}
}

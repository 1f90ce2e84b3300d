package actor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/memstore"
)

// chance is randomness that many goroutines share.
type chance struct {
	mu  sync.Mutex
	rnd *rand.Rand // guarded by mu
}

func newChance(seed uint64) *chance { return &chance{rnd: rand.New(rand.NewPCG(seed, seed))} }

func (c *chance) below(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rnd.IntN(n)
}

// upTo is a duration, short ones being as likely as long ones.
func (c *chance) upTo(most time.Duration) time.Duration {
	return time.Duration(c.below(int(most>>c.below(12))) + 1)
}

// misbehave has a store do everything that its contract permits.
func (c *chance) misbehave(most time.Duration) func(*op) {
	return func(o *op) {
		switch c.below(20) {
		case 0:
			o.fail(lockagent.ErrStoreUnavailable)
		case 1:
			o.lose()
		case 2:
			d := c.upTo(most)
			time.AfterFunc(d, o.lose)
		case 3:
			d := c.upTo(most)
			time.AfterFunc(d, func() { o.fail(lockagent.ErrStoreUnavailable) })
		case 4:
			o.late(c.upTo(most))
		case 5, 6:
			o.slow(c.upTo(most), c.upTo(most))
		case 7, 8, 9, 10:
			o.slow(c.upTo(most/100), c.upTo(most/100))
		default:
			o.run()
		}
	}
}

// referee follows the holders of each lock, by what they see themselves.
type referee struct {
	t      *testing.T
	strict bool // time stands still while goroutines run, so nobody may be late

	mu    sync.Mutex
	holds map[lockagent.Name][]lockagent.Grant // guarded by mu

	tokens map[lockagent.Name]lockagent.Token // guarded by mu
	open   map[lockagent.Name]lockagent.Event // guarded by mu; the hold that was recorded last, if it is not over
	counts map[lockagent.EventKind]int        // guarded by mu
}

// entered is called by whoever was granted a lock.
func (r *referee) entered(g lockagent.Grant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := g.Name()
	var still []lockagent.Grant
	for _, h := range r.holds[name] {
		before, cause := g.Held(), g.Cause()
		other := h.Held() && h.Owner() != g.Owner()
		told := h.Cause() != nil
		if after := g.Held(); before && after && other {
			r.t.Errorf("%q: %q (token %d) and %q (token %d) hold at once", name, h.Owner(), h.Token(), g.Owner(), g.Token())
		}
		if r.strict && cause == nil && h.Owner() != g.Owner() && !told {
			r.t.Errorf(
				"%q: %q (token %d) holds, and %q (token %d) was not told", name, g.Owner(), g.Token(), h.Owner(), h.Token(),
			)
		}
		if h.Held() {
			still = append(still, h)
		}
	}
	r.holds[name] = append(still, g)
}

// Record follows the grants of all agents in the order in which they are made.
func (r *referee) Record(_ context.Context, e lockagent.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[e.Kind]++
	if !r.strict {
		return
	}
	switch {
	case e.Kind == lockagent.EventGranted:
		if h, ok := r.open[e.Lock]; ok {
			r.t.Errorf("%q: granted to %q while %q holds it", e.Lock, e.Owner, h.Owner)
		}
		if last := r.tokens[e.Lock]; e.Token <= last {
			r.t.Errorf("%q: token %d after %d", e.Lock, e.Token, last)
		}
		r.open[e.Lock], r.tokens[e.Lock] = e, e.Token
	case e.Kind.EndsHold() && e.Count == 0:
		if h, ok := r.open[e.Lock]; !ok || h.Token != e.Token {
			r.t.Errorf("%q: the end of token %d, but %d was open", e.Lock, e.Token, h.Token)
		}
		delete(r.open, e.Lock)
	}
}

// fight has several agents fight for a few locks over a store that misbehaves, and
// checks that nothing goes wrong, and that nothing is left in the end.
func fight(t *testing.T, seed uint64, strict bool, kind lockagent.LockKind, requests int, lease time.Duration) {
	const agents, workers, locks = 3, 8, 4
	c := newChance(seed)
	store := memstore.New()
	r := &referee{
		t: t, strict: strict, holds: make(map[lockagent.Name][]lockagent.Grant),
		tokens: make(map[lockagent.Name]lockagent.Token), open: make(map[lockagent.Name]lockagent.Event),
		counts: make(map[lockagent.EventKind]int),
	}
	var taps []*tap
	var all []*Agent
	var witnesses []*witness
	for range agents {
		s := newTap(store.Share())
		s.deaf = func() bool { return c.below(10) == 0 }
		s.handle(c.misbehave(2 * lease))
		w := &witness{before: func(e lockagent.Event) { r.Record(background, e) }}
		a := start(t, Config{
			Store: s, Recorder: w, Lease: lease, Claim: lease / 2, HandOffGrants: 5, HandOffTime: lease / 4, Idle: lease / 10,
		})
		taps, all, witnesses = append(taps, s), append(all, a), append(witnesses, w)
	}
	var answers atomic.Int64
	var overs atomic.Int64
	var wg sync.WaitGroup
	for i := range agents * workers {
		wg.Go(func() {
			a := all[i%agents]
			var outer []lockagent.Grant
			for range requests {
				name := lockagent.Name(fmt.Sprint("door", c.below(locks)))
				req := Request{
					Owner: lockagent.Owner(fmt.Sprint("owner", i)), Kind: kind, Session: true,
					Watch: whenOver(func() { overs.Add(1) }),
				}
				if c.below(3) == 0 {
					req.Lease = max(lockagent.MinLease, c.upTo(2*lease))
				}
				switch c.below(4) {
				case 0:
					req.Try = true
				case 1:
					req.Wait = c.upTo(20 * lease)
				}
				ctx, cancel := context.WithTimeout(background, 15*lease) // workers that keep locks may wait for each other
				if c.below(3) == 0 {
					time.AfterFunc(c.upTo(10*lease), cancel)
				}
				ch := a.Acquire(ctx, name, req)
				if c.below(5) == 0 { // somebody else looks first
					// This waits for nothing: it is a receiver that takes its time, and that time
					// has to be of the order of a lease. Leases run on the same clock, in real time
					// as well.
					time.Sleep(c.upTo(lease))
				}
				if c.below(20) == 0 {
					_ = await(t, "leave", a.Leave(background, name, req.Owner))
				}
				g := await(t, "grant", ch)
				exhausted(t, ch)
				answers.Add(1)
				if err := g.Err(); err != nil {
					expected := errors.Is(err, lockagent.ErrNotGranted) || errors.Is(err, lockagent.ErrHeld) ||
						errors.Is(err, lockagent.ErrTimeout) ||
						errors.Is(err, lockagent.ErrLeaseTooShort) || errors.Is(err, context.Canceled) ||
						errors.Is(err, context.DeadlineExceeded) ||
						errors.Is(err, lockagent.ErrSessionClosed) || req.Try && errors.Is(err, lockagent.ErrStoreUnavailable)
					if !expected {
						t.Errorf("refused: %v", err)
					}
					cancel()
					continue
				}
				if g.Cause() == nil {
					r.entered(g)
				}
				select {
				case <-time.After(c.upTo(3 * lease)):
				case <-g.Context(background).Done():
				}
				switch c.below(20) {
				case 1: // to break the lock would be allowed to make two hold at once
					_ = await(t, "leave", a.Leave(background, name, req.Owner))
				case 2:
					outer = append(outer, g)
					cancel()
					continue
				case 3:
					_ = await(t, "release", a.Release(background, name, req.Owner))
				case 4:
					await(t, "status", a.Status(name, kind))
				}
				cancel()
				err := await(t, "release", g.ReleaseAsync(background))
				if err != nil && !errors.Is(err, lockagent.ErrNotHeld) && !errors.Is(err, lockagent.ErrUnconfirmed) &&
					!errors.Is(err, lockagent.ErrLost) {
					t.Errorf("release: %v", err)
				}
				for len(outer) > 0 && c.below(2) == 0 {
					_ = await(t, "release", outer[0].ReleaseAsync(background))
					outer = outer[1:]
				}
			}
			for _, g := range outer {
				_ = await(t, "release", g.ReleaseAsync(background))
			}
		})
	}
	wg.Wait()
	if n := answers.Load(); n != int64(agents*workers*requests) {
		t.Errorf("%d of %d requests answered", n, agents*workers*requests)
	}
	for _, s := range taps {
		s.handle(nil)
	}
	for i := range locks { // free at the latest when the longest lease has run out
		name := lockagent.Name(fmt.Sprint("door", i))
		for _, a := range all {
			// A short lease could be over before the release on a machine that is busy.
			released(t, granted(t, a.Acquire(background, name, Request{Owner: "after", Kind: kind, Lease: time.Hour})))
		}
	}
	for _, a := range all {
		// Actors stay while the store has something to be told. A withdrawal may be under way that will fail.
		waittest.Until(t, "the actors to retire", func() bool { return a.entries() == 0 })
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if n := a.entries(); n != 0 {
			t.Errorf("%d actors left", n)
		}
	}
	for i := range locks {
		if held := inspect(t, store, lockagent.Name(fmt.Sprint("door", i))); held.Held {
			t.Errorf("the store holds a lock in the end: %+v", held)
		}
	}
	if n := overs.Load(); n != int64(agents*workers*requests) {
		t.Errorf("the end was told %d times for %d requests", n, agents*workers*requests)
	}
	calls := 0
	for i, s := range taps {
		if o := s.overlaps(); len(o) != 0 {
			t.Error(o)
		}
		if n := s.subscriptions(); n != 0 {
			t.Errorf("%d subscriptions left", n)
		}
		witnesses[i].checkHolds(t)
		calls += s.count("")
	}
	t.Logf("seed %d: %d requests, %d store calls, events %v", seed, answers.Load(), calls, r.counts)
}

func TestMisbehavingStore(t *testing.T) { misbehaving(t, 2) }

func misbehaving(t *testing.T, seeds uint64) {
	for seed := range seeds {
		for _, kind := range []lockagent.LockKind{lockagent.PlainLock, lockagent.FairLock} {
			t.Run(fmt.Sprintf("%d/%s", seed, kind), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { fight(t, seed, true, kind, 100, 3*time.Second) })
			})
		}
	}
}

func TestMisbehavingStoreInRealTime(t *testing.T) {
	t.Parallel()
	misbehavingInRealTime(t, 5)
}

func misbehavingInRealTime(t *testing.T, requests int) {
	fight(t, uint64(time.Now().UnixNano()), false, lockagent.PlainLock, requests, 100*time.Millisecond)
}

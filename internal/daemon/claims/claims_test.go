package claims

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/internal/bootclock"
	"github.com/lockagent/lockagent/internal/daemon/quota"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/memstore"
)

func TestLifeOfAClaim(t *testing.T) {
	in(t, func(t *testing.T, b *Book, store *memstore.Store) {
		first := ask(t, b, Request{Client: ann, Name: "door"})
		g := read[Granted](t, first)
		if g.Claim == "" || g.Secret == "" || g.Grant.Token() == 0 || g.Waited != 0 {
			t.Errorf("%+v", g)
		}
		second := ask(t, b, Request{Client: bob, Name: "door"})
		q := read[Queued](t, second)
		if q.Claim == g.Claim || q.Secret == g.Secret || q.Holder != g.Claim || q.Ahead != 0 {
			t.Errorf("%+v", q)
		}
		third := ask(t, b, Request{Client: bob, Name: "door"})
		if q := read[Queued](t, third); q.Ahead != 1 {
			t.Errorf("%+v", q)
		}
		counts(t, b, 1, 2)

		pass(actor.DefaultLease + time.Second) // between two renewals
		// The boot clock does not know of virtual time.
		if read[Renewed](t, first).Deadline <= g.Deadline-Deadline(actor.DefaultLease) {
			t.Error("the deadline is earlier")
		}
		silent(t, first)
		store.SetOutage(lockagent.ErrStoreUnavailable)
		pass(actor.DefaultLease / 2)
		if u := read[Uncertain](t, first); !errors.Is(u.Err, lockagent.ErrStoreUnavailable) {
			t.Errorf("%+v", u)
		}
		silent(t, first)
		store.SetOutage(nil)
		read[Renewed](t, first)

		first.Close()
		h := read[Granted](t, second)
		if h.Grant.Token() <= g.Grant.Token() || h.Claim != q.Claim || h.Secret != q.Secret || h.Waited < actor.DefaultLease {
			t.Errorf("%+v", h)
		}
		second.Close()
		read[Granted](t, third)
		third.Close()
		over(t, third)
		free(t, b, "door")
	})
}

// The deadline is on the clock of the machine.
func TestDeadline(t *testing.T) {
	b, _ := open(t)
	before := bootclock.Now()
	s := ask(t, b, Request{Client: ann, Name: "door"})
	defer s.Close()
	g := read[Granted](t, s)
	left := g.Grant.Remaining()
	if after := bootclock.Now(); time.Duration(g.Deadline) <= before || time.Duration(g.Deadline) < before+left ||
		time.Duration(g.Deadline) > after+actor.DefaultLease {
		t.Errorf("the deadline is %v, the time %v to %v, left are %v", time.Duration(g.Deadline), before, after, left)
	}
}

func TestWaiterThatGoesLeavesTheQueue(t *testing.T) {
	in(t, func(t *testing.T, b *Book, _ *memstore.Store) {
		holder := ask(t, b, Request{Client: ann, Name: "door"})
		read[Granted](t, holder)
		gone, next := ask(t, b, Request{Client: bob, Name: "door"}), ask(t, b, Request{Client: bob, Name: "door"})
		gone.Close()
		gone.Close()
		counts(t, b, 1, 1)
		holder.Close()
		e, err := next.Next(background)
		if _, queued := e.(Queued); queued { // otherwise it was too slow to hear that
			e, err = next.Next(background)
		}
		if g, ok := e.(Granted); !ok || err != nil || g.Grant.Err() != nil {
			t.Errorf("%+v, %v", e, err)
		}
		next.Close()
		free(t, b, "door")
	})
}

// Nobody wrote the grant to the client. So nobody holds the lock.
func TestGrantThatWasNotDeliveredIsReleased(t *testing.T) {
	in(t, func(t *testing.T, b *Book, _ *memstore.Store) {
		s := ask(t, b, Request{Client: ann, Name: "door"})
		counts(t, b, 1, 0)
		s.Close()
		free(t, b, "door")

		s = ask(t, b, Request{Client: ann, Name: "door", Detach: true, TTL: time.Hour})
		read[Granted](t, s)
		s.Close() // before Next
		free(t, b, "door")
	})
}

func TestDenials(t *testing.T) {
	in(t, func(t *testing.T, b *Book, store *memstore.Store) {
		s := ask(t, b, Request{Client: ann, Name: "door"})
		read[Granted](t, s)
		defer s.Close()
		for want, req := range map[error]Request{
			lockagent.ErrHeld:      {Name: "door", Try: true},
			lockagent.ErrTimeout:   {Name: "door", Wait: time.Second},
			lockagent.ErrBadName:   {Name: "a}b"},
			lockagent.ErrWrongKind: {Name: "door", Kind: lockagent.Semaphore},
			lockagent.ErrBadOption: {Name: "desk", Mode: lockagent.Shared},
		} {
			req.Client = bob
			denied := ask(t, b, req)
			e, err := denied.Next(background)
			if _, queued := e.(Queued); queued {
				e, err = denied.Next(background)
			}
			if end, ok := e.(Ended); err != nil || !ok || !errors.Is(end.Cause, want) {
				t.Errorf("%v: %+v, %v", want, e, err)
			}
			over(t, denied)
			denied.Close()
		}
		counts(t, b, 1, 0)
	})
}

func TestRequestsThatCannotBe(t *testing.T) {
	in(t, func(t *testing.T, b *Book, _ *memstore.Store) {
		long := strings.Repeat("x", 10_000)
		many := make(map[string]string)
		for i := range MaxLabels + 1 {
			many[long[:i]] = ""
		}
		for option, reqs := range map[string][]Request{
			"wait":       {{Try: true, Wait: 1}, {Wait: -1}},
			"ttl":        {{TTL: -1, Detach: true}, {TTL: 2 * lockagent.MaxLease, Detach: true}},
			"detach":     {{Detach: true}, {TTL: 1}, {ForPID: 1}},
			"for_pid":    {{Detach: true, ForPID: 1 << 30}, {Detach: true, ForPID: -1}},
			"no_reentry": {{NoReentry: true}},
			"holds":      {{Holds: -1}, {Holds: refusal.MaxHolds + 1}},
			"session":    {{Session: long}, {Session: "\xff"}},
			"command":    {{Command: long}},
			"labels":     {{Labels: many}, {Labels: map[string]string{long: ""}}, {Labels: map[string]string{"": long}}},
		} {
			for _, req := range reqs {
				req.Client, req.Name = ann, "door"
				_, err := b.Acquire(req)
				if bad, ok := errors.AsType[*lockagent.OptionError](err); !ok || bad.Option != option {
					t.Errorf("%s: %v", option, err)
				}
			}
		}
		free(t, b, "door")
	})
}

func TestLossIsTold(t *testing.T) {
	in(t, func(t *testing.T, b *Book, store *memstore.Store) {
		lost := func(s *Stream, want lockagent.LossReason) {
			t.Helper()
			e := read[Ended](t, s)
			if loss, ok := errors.AsType[*lockagent.LostError](e.Cause); !ok || loss.Reason != want {
				t.Errorf("%v, want %v", e.Cause, want)
			}
			over(t, s)
			s.Close()
		}
		s := ask(t, b, Request{Client: ann, Name: "door"})
		read[Granted](t, s)
		if r := <-b.agent.Break("door", "", "root"); r.Err != nil {
			t.Fatal(r.Err)
		}
		lost(s, lockagent.LostBroken)

		s = ask(t, b, Request{Client: ann, Name: "door", Lease: time.Second})
		read[Granted](t, s)
		pass(time.Second)
		lost(s, lockagent.LostExpired)

		s = ask(t, b, Request{Client: ann, Name: "door"})
		read[Granted](t, s)
		store.SetOutage(lockagent.ErrStoreUnavailable)
		pass(actor.DefaultLease)
		lost(s, lockagent.LostDeadline)
		store.SetOutage(nil)
		free(t, b, "door")
	})
}

// A reader that reads nothing for hours then gets one deadline, or the end.
func TestSlowReader(t *testing.T) {
	in(t, func(t *testing.T, b *Book, store *memstore.Store) {
		s := ask(t, b, Request{Client: ann, Name: "door"})
		read[Granted](t, s)
		pass(5 * time.Hour)
		read[Renewed](t, s)
		silent(t, s)
		pass(5 * time.Hour)
		store.SetOutage(lockagent.ErrStoreUnavailable)
		pass(actor.DefaultLease / 2)
		read[Renewed](t, s)
		read[Uncertain](t, s)
		silent(t, s)
		pass(actor.DefaultLease / 6)
		store.SetOutage(nil)
		pass(5 * time.Hour)
		store.SetOutage(lockagent.ErrStoreUnavailable)
		pass(actor.DefaultLease / 2)
		store.SetOutage(nil)
		pass(time.Minute)
		read[Renewed](t, s)
		silent(t, s) // that it was uncertain is over
		pass(5 * time.Hour)
		s.claim.giveUp(0)
		if e := read[Ended](t, s); e.Cause != nil {
			t.Error(e.Cause)
		}
		s.Close()
		free(t, b, "door")
	})
}

func TestReleaseIsIdempotent(t *testing.T) {
	in(t, func(t *testing.T, b *Book, _ *memstore.Store) {
		s := ask(t, b, Request{Client: ann, Name: "door"})
		g := read[Granted](t, s)
		waits := ask(t, b, Request{Client: bob, Name: "door"})
		q := read[Queued](t, waits)
		for _, c := range []struct {
			id, secret string
			ended      bool
			err        error
		}{
			{g.Claim, "guess", false, refusal.ErrNoClaim},
			{g.Claim, "", false, refusal.ErrNoClaim},
			{g.Claim, q.Secret, false, refusal.ErrNoClaim},
			{"other", g.Secret, false, nil},
			{q.Claim, q.Secret, true, nil},
			{q.Claim, q.Secret, false, nil},
			{g.Claim, g.Secret, true, nil},
			{g.Claim, g.Secret, false, nil},
		} {
			if ended, err := b.Release(background, c.id, c.secret, 0); ended != c.ended || !errors.Is(err, c.err) {
				t.Errorf("%v: %v, %v", c, ended, err)
			}
		}
		for _, s := range []*Stream{s, waits} {
			if e := read[Ended](t, s); e.Cause != nil {
				t.Errorf("ended because of %v", e.Cause)
			}
			over(t, s)
			s.Close()
		}
		free(t, b, "door")
	})
}

func TestReleaseThatTheStoreDoesNotConfirm(t *testing.T) {
	in(t, func(t *testing.T, b *Book, store *memstore.Store) {
		s := ask(t, b, Request{Client: ann, Name: "door"})
		g := read[Granted](t, s)
		store.SetOutage(lockagent.ErrStoreUnavailable)
		if ended, err := b.Release(background, g.Claim, g.Secret, 0); !ended || !errors.Is(err, lockagent.ErrUnconfirmed) {
			t.Errorf("%v, %v", ended, err)
		}
		store.SetOutage(nil)
	})
}

func TestSessions(t *testing.T) {
	in(t, func(t *testing.T, b *Book, _ *memstore.Store) {
		req := Request{Client: ann, Name: "door", Session: "job"}
		one, two := ask(t, b, req), ask(t, b, req)
		g, h := read[Granted](t, one), read[Granted](t, two)
		if g.Grant.Token() != h.Grant.Token() || g.Grant.HoldCount() != 1 || h.Grant.HoldCount() != 2 {
			t.Errorf("%+v, %+v", g.Grant, h.Grant)
		}
		req.NoReentry = true
		third := ask(t, b, req)
		if e := read[Ended](t, third); !errors.Is(e.Cause, lockagent.ErrReentry) {
			t.Error(e.Cause)
		}
		third.Close()
		foreign := ask(t, b, Request{Client: bob, Name: "door", Session: "job"})
		read[Queued](t, foreign) // sessions of different users never meet
		one.Close()
		silent(t, foreign)
		two.Close()
		read[Granted](t, foreign)
		foreign.Close()
		free(t, b, "door")
	})
}

func TestPermits(t *testing.T) {
	in(t, func(t *testing.T, b *Book, _ *memstore.Store) {
		if r := <-b.agent.Permits(background, lockagent.PermitsRequest{
			Name: "slots", Kind: lockagent.Permits, Op: lockagent.TrySetPermits, N: 3,
		}); r.Err != nil {
			t.Fatal(r.Err)
		}
		s := ask(t, b, Request{Client: ann, Name: "slots", Kind: lockagent.Permits, Permits: 2})
		if ids := read[Granted](t, s).Grant.PermitIDs(); len(ids) != 2 {
			t.Errorf("%d permits", len(ids))
		}
		s.Close()
		counts(t, b, 0, 0)
	})
}

func TestDetached(t *testing.T) {
	in(t, func(t *testing.T, b *Book, _ *memstore.Store) {
		s := ask(t, b, Request{Client: ann, Name: "door", Detach: true, TTL: time.Minute})
		g := read[Granted](t, s)
		over(t, s)
		s.Close()
		pass(59 * time.Second)
		counts(t, b, 1, 0)
		told := func(want time.Duration) {
			t.Helper()
			if h := b.Lock("door").Holders[0]; time.Until(h.Expires) != want {
				t.Errorf("it is told to end in %v, want %v", time.Until(h.Expires), want)
			}
		}
		told(time.Second)
		r, err := b.Renew(background, g.Claim, g.Secret, time.Minute, 0)
		if now := Deadline(bootclock.Now()); err != nil || r.Hold <= now || r.Expires <= now ||
			r.Expires > now+Deadline(time.Minute) {
			t.Errorf("%v, %+v", err, r)
		}
		told(time.Minute)
		pass(59 * time.Second)
		counts(t, b, 1, 0)
		if _, err := b.Renew(background, g.Claim, "guess", time.Minute, 0); !errors.Is(err, refusal.ErrNoClaim) {
			t.Error(err)
		}
		pass(time.Second)
		free(t, b, "door")
		if _, err := b.Renew(background, g.Claim, g.Secret, time.Minute, 0); !errors.Is(err, refusal.ErrNoClaim) {
			t.Error(err)
		}
	})
}

// A fixed lease can be extended through the claim, and one that is kept cannot.
func TestRenewOfALease(t *testing.T) {
	in(t, func(t *testing.T, b *Book, _ *memstore.Store) {
		s := ask(t, b, Request{Client: ann, Name: "door", Lease: time.Minute})
		g := read[Granted](t, s)
		if r, err := b.Renew(background, g.Claim, g.Secret, 0, time.Hour); err != nil || r.Expires != 0 ||
			g.Grant.Remaining() < 50*time.Minute {
			t.Errorf("%+v, %v, left are %v", r, err, g.Grant.Remaining())
		}
		if _, err := b.Renew(background, g.Claim, g.Secret, time.Hour, 0); !errors.Is(err, lockagent.ErrBadOption) {
			t.Errorf("a time to live of a claim that has a stream: %v", err)
		}
		s.Close()
		free(t, b, "door")
	})
}

func TestQuotas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := openWith(t, map[quota.Kind]quota.Bound{
			quota.Claims: {Each: 4}, quota.Waiters: {Each: 2}, quota.Streams: {Each: 3},
		})
		req := func(c Client, name lockagent.Name) Request { return Request{Client: c, Name: name} }
		refused := func(what string, _ *Stream, err error) {
			t.Helper()
			if q, ok := errors.AsType[*refusal.QuotaError](err); !ok || q.What != what || !errors.Is(err, refusal.ErrQuota) {
				t.Errorf("%v, want too many %s", err, what)
			}
		}
		holder := ask(t, b, req(ann, "door"))
		read[Granted](t, holder)
		one, two := ask(t, b, req(ann, "door")), ask(t, b, req(ann, "door"))
		s, err := b.Acquire(req(ann, "desk"))
		refused("waiting claims", s, err)
		two.Close()
		synctest.Wait()
		detached := req(ann, "safe")
		detached.Detach, detached.TTL = true, time.Hour
		d := ask(t, b, detached)
		g := read[Granted](t, d)
		over(t, d)
		third := ask(t, b, req(ann, "desk"))
		read[Granted](t, third)
		s, err = b.Acquire(req(ann, "other"))
		refused("claims", s, err)
		s, err = b.Attach(ann, g.Claim, g.Secret, nil)
		refused("streams", s, err)
		if third, err = b.Attach(ann, third.claim.id, third.secret, nil); err != nil {
			t.Errorf("a stream in place of another one: %v", err)
		}
		other := ask(t, b, req(bob, "other")) // has its own
		read[Granted](t, other)
		for _, s := range []*Stream{holder, one, third, other} {
			s.Close()
		}
		if _, err := b.Release(background, g.Claim, g.Secret, 0); err != nil {
			t.Error(err)
		}
		free(t, b, "door")
	})
}

func TestDrain(t *testing.T) {
	in(t, func(t *testing.T, b *Book, _ *memstore.Store) {
		s := ask(t, b, Request{Client: ann, Name: "door"})
		read[Granted](t, s)
		b.Drain(time.Minute)
		if e := read[Draining](t, s); e.Left != time.Minute {
			t.Errorf("%+v", e)
		}
		if _, err := b.Acquire(Request{Client: ann, Name: "desk"}); !errors.Is(err, refusal.ErrDraining) {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		if left := b.Await(ctx); left != 1 {
			t.Errorf("%d left", left)
		}
		left := make(chan int)
		for range 2 {
			go func() { left <- b.Await(background) }()
		}
		synctest.Wait()
		s.Close()
		if n := <-left + <-left; n != 0 {
			t.Errorf("%d left", n)
		}
		free(t, b, "door")
	})
}

func TestADrainIsTakenBack(t *testing.T) {
	in(t, func(t *testing.T, b *Book, _ *memstore.Store) {
		s := ask(t, b, Request{Client: ann, Name: "door"})
		read[Granted](t, s)
		b.Drain(time.Hour)
		left := make(chan int)
		go func() { left <- b.Await(background) }()
		synctest.Wait()
		if err := b.Undrain(); err != nil || b.Drains() {
			t.Errorf("it drains: %v, %v", b.Drains(), err)
		}
		if n := <-left; n != 1 {
			t.Errorf("whoever waited for the last claim is told of %d", n)
		}
		read[Granted](t, ask(t, b, Request{Client: ann, Name: "desk"})) // and all goes on
		b.End(time.Hour)
		if err := b.Undrain(); !errors.Is(err, refusal.ErrDraining) || !b.Drains() {
			t.Errorf("the end was taken back: %v", err)
		}
	})
}

func TestIDsAreInTheOrderOfTime(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	a, b, c := newID(now), newID(now.Add(time.Millisecond)), newID(now.Add(time.Hour))
	if !(a < b && b < c) || len(a) != 36 || a[14] != '7' || a[:13] != "018bcfe5-6800" {
		t.Errorf("%s, %s, %s", a, b, c)
	}
}

// Streams end, claims are released, and locks are broken, all at once, and nothing is left.
func TestEverythingAtOnce(t *testing.T) {
	b, _ := open(t)
	var clients sync.WaitGroup
	for i := range 16 {
		clients.Go(func() {
			for n := range 200 {
				s, err := b.Acquire(Request{
					Client: Client{UID: uint32(i % 3)}, Name: lockagent.Name('a' + rune(n%3)), Session: []string{"", "job"}[n%2],
				})
				if err != nil {
					t.Error(err)
					return
				}
				id, secret := s.claim.id, s.secret
				switch n % 5 {
				case 0: // before it knows anything
				case 1, 2:
					for {
						e, err := s.Next(background)
						if err != nil {
							t.Error(err)
						}
						if _, queued := e.(Queued); !queued {
							break
						}
					}
				case 3:
					go s.Close()
					_, _ = b.Release(background, id, secret, 0)
				case 4:
					go b.agent.Break(s.claim.Name, "", "root")
					if again, err := b.Attach(ann, id, secret, nil); err == nil {
						_, _ = again.Next(background)
						again.Close()
					}
				}
				s.Close()
			}
		})
	}
	clients.Wait()
	if left := b.Await(waittest.Context(t)); left != 0 {
		t.Errorf("%d claims are left", left)
	}
	for _, name := range []lockagent.Name{"a", "b", "c"} {
		if r := <-b.agent.Status(name, ""); r.Err != nil {
			t.Error(r.Err)
		}
	}
	nothing(t, b)
}

// The time to live has passed, and the claim has not ended yet.
func TestAttachAtTheLastMoment(t *testing.T) {
	in(t, func(t *testing.T, b *Book, _ *memstore.Store) {
		req := Request{Client: ann, Name: "door", Detach: true, TTL: time.Second, Secret: strings.Repeat("s", MinSecret)}
		s := ask(t, b, req)
		g := read[Granted](t, s)
		over(t, s) // the time begins
		c := s.claim
		b.mu.Lock()
		time.Sleep(req.TTL) // the end of the claim waits for the mutex
		_, err := c.attach(g.Secret, ann, nil, false)
		again, other := b.again(g.Secret, &req)
		b.mu.Unlock()
		if !errors.Is(err, refusal.ErrNoClaim) || again != nil || other != nil {
			t.Errorf("got %v, and %v, %v for another request", err, again, other)
		}
		free(t, b, "door")
	})
}

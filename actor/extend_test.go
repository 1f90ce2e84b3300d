package actor

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/slot"
	"github.com/lockagent/lockagent/memstore"
)

// lease gives a test a hold with a fixed lease.
func (a *Agent) lease(t testing.TB, owner string, d time.Duration) *request {
	t.Helper()
	var hold *request
	a.holding(&hold, "door", Request{Owner: lockagent.Owner(owner), Lease: d})
	if hold == nil {
		t.Fatal("not granted")
	}
	return hold
}

// holding asks for a lock and looks at what stands behind the grant.
func (a *Agent) holding(hold **request, name lockagent.Name, req Request) {
	req.Slot = slot.New[lockagent.Grant]()
	r := &request{agent: a, Request: req, caller: background}
	a.ask(background, name, r)
	if g := <-req.Slot.C(); g.Err() == nil {
		*hold = r
	}
}

// An extension that the store does not confirm changes nothing, and is answered when the
// hold is over.
func TestExtendWithoutTheStore(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(a *Agent, hold *request)
		is   func(err error) bool
	}{
		{"until the lease is over", func(*Agent, *request) { time.Sleep(9 * time.Second) }, func(err error) bool {
			lost, _ := errors.AsType[*lockagent.LostError](err)
			return lost != nil && lost.Reason == lockagent.LostDeadline
		}},
		{
			"until it is released", func(_ *Agent, hold *request) { _ = hold.Release(background) },
			func(err error) bool { return errors.Is(err, lockagent.ErrNotHeld) },
		},
		{"until the agent is closed", func(a *Agent, _ *request) { a.Close() }, func(err error) bool {
			lost, _ := errors.AsType[*lockagent.LostError](err)
			return lost != nil && lost.Reason == lockagent.LostClosed
		}},
		{"until it answers again", func(a *Agent, _ *request) {
			a.identity.Store.(*tap).handle(nil)
			time.Sleep(2 * retryMax)
		}, func(err error) bool { return err == nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTap(memstore.New())
				s.on("renew", func(o *op) { o.fail(lockagent.ErrStoreUnavailable) })
				a := start(t, Config{Store: s})
				hold := a.lease(t, "ann", 10*time.Second)
				first, second := hold.ExtendAsync(background, 20*time.Second), hold.ExtendAsync(background, 30*time.Second)
				synctest.Wait()
				if cap(first) != 1 {
					t.Errorf("capacity %d", cap(first))
				}
				silent(t, "first", first)
				if left := hold.Remaining(); left != 9*time.Second {
					t.Errorf("%v are left", left)
				}
				c.end(a, hold)
				for _, done := range []<-chan error{first, second} {
					if err := await(t, "extension", done); !c.is(err) {
						t.Errorf("got %v", err)
					}
					exhausted(t, done)
				}
			})
		})
	}
}

func TestExtendIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{})
		kept := a.lease(t, "ann", 0)
		if err := <-kept.ExtendAsync(background, time.Minute); !errors.Is(err, lockagent.ErrBadOption) {
			t.Errorf("a kept lease: %v", err)
		}
		if err := <-kept.ReleaseAsync(background); err != nil {
			t.Error(err)
		}
		fixed := a.lease(t, "ann", time.Minute)
		for _, bad := range []time.Duration{0, -1, lockagent.MaxLease + 1} {
			if err := <-fixed.ExtendAsync(background, bad); !errors.Is(err, lockagent.ErrBadOption) {
				t.Errorf("%v: %v", bad, err)
			}
		}
		if err := <-fixed.ReleaseAsync(background); err != nil {
			t.Error(err)
		}
		if err := <-fixed.ExtendAsync(background, time.Minute); !errors.Is(err, lockagent.ErrNotHeld) {
			t.Errorf("released: %v", err)
		}
		closed(t, a)
		if err := <-fixed.ExtendAsync(background, time.Minute); !errors.Is(err, lockagent.ErrNotHeld) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// An extension that is not confirmed yet does not wait for the store once another hold keeps the lease.
func TestExtendOfALeaseThatIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTap(memstore.New())
		s.on("renew", func(o *op) { o.fail(lockagent.ErrStoreUnavailable) })
		a := start(t, Config{Store: s})
		var outer, inner *request
		a.holding(&outer, "door", Request{Owner: "ann", Session: true, Lease: 10 * time.Second})
		pending := outer.ExtendAsync(background, time.Hour)
		synctest.Wait()
		silent(t, "extension", pending)
		a.holding(&inner, "door", Request{Owner: "ann", Session: true})
		synctest.Wait()
		select {
		case err := <-pending:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("the extension waits")
		}
		if err := await(t, "extension", outer.ExtendAsync(background, 2*time.Hour)); err != nil {
			t.Error(err)
		}
		s.handle(nil)
		if err := <-inner.ReleaseAsync(background); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * retryMax)
		if left := outer.Remaining(); left < time.Hour {
			t.Errorf("%v are left", left)
		}
	})
}

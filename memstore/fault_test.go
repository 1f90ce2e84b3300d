package memstore

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
)

// answers makes one call of each kind, and returns where their errors will be.
func (g *guest) answers() chan error {
	ctx := context.Background()
	errs := make(chan error, 6)
	g.store.Acquire(ctx, lockagent.AcquireRequest{Name: orders, Tenure: g.tenure(1), Lease: time.Minute},
		func(_ lockagent.AcquireReply, err error) { errs <- err })
	g.store.Renew(ctx, lockagent.RenewRequest{Name: orders, Tenure: g.tenure(1), Lease: time.Minute},
		func(_ lockagent.RenewReply, err error) { errs <- err })
	g.store.Release(ctx, lockagent.ReleaseRequest{Name: orders, Tenure: g.tenure(1)},
		func(_ lockagent.ReleaseReply, err error) { errs <- err })
	g.store.Break(ctx, lockagent.BreakRequest{Name: orders}, func(_ lockagent.BreakReply, err error) { errs <- err })
	g.store.Inspect(ctx, orders, lockagent.PlainLock, func(_ lockagent.Inspection, err error) { errs <- err })
	g.store.Time(ctx, func(_ lockagent.StoreTime, err error) { errs <- err })
	return errs
}

// answered expects all of them to be there, and to be want.
func answered(t *testing.T, errs chan error, want error) {
	t.Helper()
	if len(errs) != cap(errs) {
		t.Fatalf("%d calls of %d were answered", len(errs), cap(errs))
	}
	for range cap(errs) {
		if err := <-errs; !errors.Is(err, want) || (want == nil && err != nil) {
			t.Errorf("answered by %v; want %v", err, want)
		}
	}
}

func TestOutage(t *testing.T) {
	guests := newGuests(t, 2)
	one, two := guests[0], guests[1]
	resets := 0
	two.store.OnReset(func(lockagent.Reset) { resets++ })
	one.acquire(orders, 1)
	two.queue(1)
	two.store.SetOutage(io.EOF)
	answered(t, two.answers(), lockagent.ErrStoreUnavailable)
	answered(t, two.answers(), io.EOF)
	if reply := one.release(orders, 1); reply.Passed || reply.Others != 0 || two.woken != 1 {
		t.Errorf("Release = %+v; want nobody to be told", reply)
	}
	two.hears()
	two.store.SetOutage(nil)
	two.hears(lockagent.MessagesMissed, lockagent.MessageAlone)
	if two.woken != 2 || resets != 0 {
		t.Errorf("woken %d times, want once after the outage; told of %d resets", two.woken, resets)
	}
	answered(t, two.answers(), nil)
}

func TestHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuests(t, 1)[0]
		resume := g.store.Hang()
		errs := g.answers()
		time.Sleep(DefaultBound - 1)
		if len(errs) > 0 {
			t.Fatalf("answered: %v", <-errs)
		}
		resume()
		answered(t, errs, nil)
		g.hears(lockagent.MessagesMissed, lockagent.MessageAlone)
		resume()
		g.hears()
		time.Sleep(time.Hour) // no call is answered twice: errs is full
		answered(t, g.answers(), nil)
	})
}

func TestCallsOfAHangingStoreEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuests(t, 1)[0]
		g.store.SetBound(time.Second)
		resume := g.store.Hang()
		errs := g.answers()
		time.Sleep(time.Second)
		synctest.Wait()
		answered(t, errs, lockagent.ErrStoreUnavailable)

		// What was answered takes effect late.
		g.store.Acquire(t.Context(), lockagent.AcquireRequest{Name: orders, Tenure: g.tenure(2), Lease: time.Minute},
			func(_ lockagent.AcquireReply, err error) { errs <- err })
		time.Sleep(time.Second)
		synctest.Wait()
		if err := <-errs; !errors.Is(err, lockagent.ErrStoreUnavailable) {
			t.Errorf("answered by %v", err)
		}
		resume()
		if !newGuest(t, g.store.Share()).breaks(orders) {
			t.Error("the late call had no effect")
		}

		// Close ends calls for good.
		g.store.Hang()
		errs = g.answers()
		if err := g.store.Close(); err != nil {
			t.Error(err)
		}
		answered(t, errs, lockagent.ErrClosed)
		answered(t, g.answers(), lockagent.ErrClosed)
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(errs) > 0 {
			t.Error("answered twice")
		}
	})
}

// To the others, an agent that hangs is there: it may be passed the lock.
func TestNobodyNoticesAHang(t *testing.T) {
	guests := newGuests(t, 2)
	one, two := guests[0], guests[1]
	one.acquire(orders, 1)
	two.queue(1)
	resume := two.store.Hang()
	if reply := one.release(orders, 1); !reply.Passed {
		t.Errorf("Release = %+v; want the lock passed", reply)
	}
	two.hears()
	one.breaks(orders)
	if two.woken != 1 {
		t.Errorf("woken %d times, while it hangs", two.woken)
	}
	resume()
	two.hears(lockagent.MessagesMissed, lockagent.MessageAlone)
	if two.woken != 2 {
		t.Errorf("woken %d times, want once after it hung", two.woken)
	}
	two.acquire(orders, 1)
}

func TestResetsDuringAFaultAreToldOnce(t *testing.T) {
	g := newGuests(t, 1)[0]
	var told []lockagent.Reset
	g.store.OnReset(func(reset lockagent.Reset) { told = append(told, reset) })
	from := g.store.memory.clock.incarnation
	resume := g.store.Hang()
	g.store.Reset()
	g.store.Reset()
	g.store.SetOutage(io.EOF)
	resume()
	if len(told) > 0 {
		t.Errorf("told %+v", told)
	}
	g.store.SetOutage(nil)
	g.store.Hang()()
	if len(told) != 1 || told[0].From != from || told[0].To != g.store.memory.clock.incarnation {
		t.Errorf("told %+v", told)
	}
}

// done may call the store, also when a call ends late.
func TestCallsMadeByDoneOfALateCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuests(t, 1)[0]
		resume := g.store.Hang()
		var acquired lockagent.AcquireReply
		g.store.Inspect(t.Context(), orders, lockagent.PlainLock, func(_ lockagent.Inspection, err error) {
			if !errors.Is(err, lockagent.ErrStoreUnavailable) {
				t.Error(err)
			}
			resume()
			acquired = g.acquire(orders, 1)
		})
		time.Sleep(DefaultBound)
		synctest.Wait()
		if !acquired.Granted {
			t.Errorf("Acquire = %+v", acquired)
		}
	})
}

// Two agents with one identity begin while the store is away. One of them is told when the store is back.
func TestTwinsThatBeginInAnOutage(t *testing.T) {
	one := newGuest(t, New())
	two := newGuest(t, one.store.Share())
	one.store.SetOutage(errors.New("the network is down"))
	two.store.SetOutage(errors.New("the network is down"))
	heard := make(map[*Store][]lockagent.Message)
	const id = "agent"
	for _, s := range []*Store{one.store, two.store} {
		s.Listen(id, func(m lockagent.Message) { heard[s] = append(heard[s], m) })
	}
	two.store.SetOutage(nil)
	one.store.SetOutage(nil)
	last := func(s *Store) lockagent.MessageKind { return heard[s][len(heard[s])-1].Kind }
	if last(two.store) != lockagent.MessageAlone || last(one.store) != lockagent.MessageTwin {
		t.Errorf("heard %+v", heard)
	}
	two.store.SetOutage(errors.New("the network is down"))
	one.store.SetOutage(errors.New("the network is down"))
	one.store.SetOutage(nil)
	two.store.SetOutage(nil)
	if last(one.store) != lockagent.MessageAlone || last(two.store) != lockagent.MessageTwin {
		t.Errorf("heard after another outage: %+v", heard)
	}
}

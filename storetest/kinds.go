package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// kindClauses are about the kind that a request names.
var kindClauses = []clause{
	{
		name: "one name, one kind",
		says: "If what the store has under the name shows that the name is in use as another kind, Acquire, Break and " +
			"Inspect end with a [*KindError].",
		prove: func(t *testing.T, h *Harness) {
			h.asOthers(t, func(name lockagent.Name, one, two *party) {
				one.acquire(name, 1)
				two.refusedKind(name, h)
				if left := one.sees(name, one.tenure(1).String()).Remaining; left <= 0 || left > minute {
					t.Errorf("%v left of a lease of %v", left, minute)
				}
				if reply := one.renew(name, 1, minute); !reply.Held {
					t.Errorf("Renew of the holder = %+v", reply)
				}
				one.acquire(name, 1) // again, because a reply was lost
				two.refusedKind(name, h)
				one.release(name, 1, true)
				two.acquire(name, 3)
			})
		},
	},
	{
		name: "who was passed the lock shows the kind",
		says: "A tenure that has the lock shows the kind to every Acquire, Break and Inspect of another tenure, also if " +
			"it was passed the lock.",
		prove: func(t *testing.T, h *Harness) {
			h.needs(t, withQueue)
			next := h.agent(t)
			h.asOthers(t, func(name lockagent.Name, one, two *party) {
				one.acquire(name, 1)
				next.subscribe(name)
				if reply, err := next.try(next.queueing(name, 1)); err != nil || !reply.Queued {
					t.Fatalf("Acquire = %+v, %v; want a place", reply, err)
				}
				if released := one.release(name, 1, true); !released.Passed {
					t.Fatalf("Release = %+v; want the lock passed", released)
				}
				two.refusedKind(name, h)
				next.release(name, 1, true)
			})
		},
		except: unplaced,
	},
	{
		name: "a name that is not in use any more can be used as another kind",
		says: "One name stands for one kind",
		prove: func(t *testing.T, h *Harness) {
			h.asOthers(t, func(name lockagent.Name, one, two *party) {
				wish := one.wish(name, 1)
				wish.Lease = brief
				one.get(wish)
				if one.awaitFree(name) {
					two.acquire(name, 1)
					two.release(name, 1, true)
					one.acquire(name, 2)
				}
			})
		},
	},
	{
		name: "a kind that the store does not have is an error",
		says: "A store that does not have a kind answers with an [*OptionError].",
		prove: func(t *testing.T, h *Harness) {
			one := h.agent(t)
			lacking := slices.DeleteFunc(lockagent.LockKinds(),
				func(kind lockagent.LockKind) bool { return slices.Contains(h.kinds, kind) })
			for _, kind := range append(lacking, "revolving") {
				one.kind = kind
				one.refusedOption(one.wish(theLock, 1))
				one.fails(theLock, lockagent.ErrBadOption)
				one.store.Subscribe(theLock, kind, func() {})()
			}
			one.kind = h.kind
			one.sees(theLock, "")
			one.acquire(theLock, 1)
		},
	},
	{
		name: "a request that names no kind is for a plain lock",
		says: "In a request, the empty LockKind is [PlainLock].",
		prove: func(t *testing.T, h *Harness) {
			if h.kind != lockagent.PlainLock {
				t.Skip("this is about plain locks")
			}
			one, two := h.pair(t)
			two.kind = ""
			one.acquire(theLock, 1)
			two.refused(theLock, 1, one.tenure(1).String())
			one.release(theLock, 1, true)
			two.acquire(theLock, 1)
			if reply := two.renew(theLock, 1, time.Hour); !reply.Held {
				t.Errorf("Renew = %+v; want it held", reply)
			}
			one.sees(theLock, two.sees(theLock, two.tenure(1).String()).Holder)
			two.release(theLock, 1, true)
			one.acquire(theLock, 2)
			two.breaks(theLock, true) // the last step, which needs an Operator
		},
	},
}

// asOthers calls prove for each other kind with exclusive holds that the store has. two uses all names
// as that kind.
func (h *Harness) asOthers(t *testing.T, prove func(name lockagent.Name, one, two *party)) {
	t.Helper()
	others := slices.DeleteFunc(slices.Clone(h.kinds), func(kind lockagent.LockKind) bool {
		return kind == h.kind || !slices.Contains(exclusive, kind)
	})
	if len(others) == 0 {
		t.Skip("the store has one kind of lock")
	}
	one, two := h.pair(t)
	for _, two.kind = range others {
		prove("orders/"+lockagent.Name(two.kind), one, two)
	}
}

// unplaced are the kind without places, and the one whose places another test has.
var unplaced = []lockagent.LockKind{lockagent.SpinLock, lockagent.ReadWriteLock}

// refusedKind makes all calls that end with a KindError, for a name that is in use as the kind of the
// case.
func (p *party) refusedKind(name lockagent.Name, h *Harness) {
	p.t.Helper()
	want := lockagent.KindError{Name: name, Kind: p.kind, Used: h.kind}
	refused := func(what string, err error) {
		p.t.Helper()
		told, _ := errors.AsType[*lockagent.KindError](err)
		if told == nil || *told != want {
			p.t.Errorf("%s: error %v; want %v", what, err, &want)
		}
	}
	for _, req := range []lockagent.AcquireRequest{p.wish(name, 1), p.queueing(name, 2)} {
		reply, err := p.try(req)
		if refused("Acquire", err); reply.Granted || reply.Queued {
			p.t.Errorf("Acquire = %+v; want it refused", reply)
		}
		p.release(name, req.Tenure.Number, false) // gives up what it may have
	}
	_, err := inspect(p.t, p.store, name, p.kind)
	refused("Inspect", err)
	if p.offers(withOperator) {
		broken, err := breakLock(p.t, p.store, p.breaking(name))
		if refused("Break", err); broken {
			p.t.Errorf("Break of a %s lock broke a %s lock", p.kind, h.kind)
		}
	}
	if reply := p.renew(name, 1, time.Hour); reply.Held {
		p.t.Errorf("Renew = %+v; want Held false", reply)
	}
}

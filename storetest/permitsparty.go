package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// Permits calls [lockagent.Counters].Permits and waits for the reply. It may be called from any
// goroutine of the test.
func Permits(t TB, s lockagent.Store, req lockagent.PermitsRequest) (lockagent.PermitsReply, error) {
	t.Helper()
	return start(t, "Permits", func(done func(lockagent.PermitsReply, error)) {
		if counters, ok := lockagent.Layer[lockagent.Counters](s); ok {
			counters.Permits(context.Background(), req, done)
			return
		}
		done(lockagent.PermitsReply{}, errNoLayer)
	}).await()
}

// user is an agent that uses a semaphore.
type user struct{ *party }

func (h *Harness) users(t *testing.T, n int) []user {
	t.Helper()
	all := make([]user, n)
	for i := range all {
		all[i] = user{h.agent(t)}
	}
	return all
}

// as is the agent with requests of another kind.
func (u user) as(kind lockagent.LockKind) user {
	p := *u.party
	p.kind = kind
	return user{&p}
}

// change makes a change with an id of its own.
func (u user) change(op lockagent.PermitsOp, n int) lockagent.PermitsReply {
	u.t.Helper()
	return u.changes(u.request(op, n))
}

func (u user) request(op lockagent.PermitsOp, n int) lockagent.PermitsRequest {
	return lockagent.PermitsRequest{Name: theLock, Kind: u.kind, Op: op, N: n, Change: string(lockagent.NewAgentID())}
}

func (u user) changes(req lockagent.PermitsRequest) lockagent.PermitsReply {
	u.t.Helper()
	reply, err := Permits(u.t, u.store, req)
	if err != nil {
		u.t.Fatalf("Permits(%+v): %v", req, err)
	}
	return reply
}

// of is a change to one permit.
func (u user) of(op lockagent.PermitsOp, id lockagent.PermitID) lockagent.PermitsRequest {
	req := u.request(op, 0)
	req.ID, req.Lease = id, minute
	return req
}

// extends expects to extend a permit that is taken.
func (u user) extends(id lockagent.PermitID, lease time.Duration) {
	u.t.Helper()
	req := u.of(lockagent.ExtendPermit, id)
	req.Lease = lease
	if reply := u.changes(req); !reply.Done {
		u.t.Fatalf("ExtendPermit = %+v; want it done", reply)
	}
}

// outlasts takes the last n permits for a brief time. When it returns, they are free, and so is all that somebody had
// for no longer.
func (u user) outlasts(number uint64, n int) {
	u.t.Helper()
	req := u.wants(number, n, false)
	req.Lease = brief
	u.get(req)
	eventually(u.t, "the lease is over", func() bool {
		return u.changes(u.request(lockagent.ReadPermits, 0)).Free >= n
	})
}

// counts expects so many free and taken permits.
func (u user) counts(free, taken int) {
	u.t.Helper()
	reply := u.changes(u.request(lockagent.ReadPermits, 0))
	if !reply.Exists || reply.Free != free || reply.Taken != taken {
		u.t.Fatalf("the semaphore is %+v; want %d free and %d taken", reply, free, taken)
	}
}

// wants is a request for n permits, which asks for a place if queue.
func (u user) wants(number uint64, n int, queue bool) lockagent.AcquireRequest {
	req := u.wish(theLock, number)
	req.Permits, req.Queue = n, queue
	return req
}

// takes expects to be granted n permits.
func (u user) takes(number uint64, n int) lockagent.AcquireReply {
	u.t.Helper()
	return u.get(u.wants(number, n, false))
}

// waits expects to be refused n permits, and to get a place if the store has a queue.
func (u user) waits(h *Harness, number uint64, n int) lockagent.AcquireReply {
	u.t.Helper()
	reply, err := u.try(u.wants(number, n, true))
	if err != nil || reply.Granted || reply.NotSet || reply.Queued != u.offers(withQueue) {
		u.t.Fatalf("Acquire(%s) = %+v, %v; want a place", u.tenure(number), reply, err)
	}
	return reply
}

// lacks expects to be refused n permits.
func (u user) lacks(number uint64, n int) lockagent.AcquireReply {
	u.t.Helper()
	reply, err := u.try(u.wants(number, n, false))
	if err != nil || reply.Granted || reply.NotSet {
		u.t.Fatalf("Acquire(%s) = %+v, %v; want it refused", u.tenure(number), reply, err)
	}
	return reply
}

// gives expects to release a tenure, or that it is over.
func (u user) gives(number uint64, released bool) lockagent.ReleaseReply {
	u.t.Helper()
	return u.end(u.ending(theLock, number), released)
}

// keeps renews a tenure, and expects that it is held.
func (u user) keeps(number uint64, held bool) {
	u.t.Helper()
	req := u.renewal(theLock, number, minute)
	req.Urgent = true
	reply, err := Renew(u.t, u.store, req)
	if err != nil || reply.Held != held {
		u.t.Fatalf("Renew(%s) = %+v, %v; want Held %t", u.tenure(number), reply, err, held)
	}
}

// watches subscribes to the semaphore.
func (u user) watches() *Subscription {
	u.t.Helper()
	sub, wake := newSubscription(u.t, theLock)
	sub.cancel = u.store.Subscribe(theLock, u.kind, wake)
	if !sub.Await() {
		u.t.FailNow()
	}
	return sub
}

// fails expects an error of a change.
func (u user) fails(req lockagent.PermitsRequest, want error) {
	u.t.Helper()
	if reply, err := Permits(u.t, u.store, req); !errors.Is(err, want) {
		u.t.Errorf("Permits(%+v) = %+v, %v; want %v", req, reply, err, want)
	}
}

package storetest

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

const (
	// theLock is the lock of most cases.
	theLock lockagent.Name = "orders/42"

	// minute is the lease of a tenure that does not end in the case. It is not longer, because
	// a store may put a renewal off for a part of it.
	minute = time.Minute

	// brief is the lease of a tenure that ends in the case. It may end at any time, so no case
	// relies on the tenure.
	brief = 20 * time.Millisecond

	// moment is the tolerance of all comparisons of StoreTimes. A store may start a lease
	// first and read its clock afterwards. Its clock may be a little behind its tokens.
	moment = 500 * time.Microsecond
)

// party is one agent in a case, with its store. Most methods fail the case at once if the
// store does not answer, or answers with an error. The others return the error.
type party struct {
	t        *testing.T
	store    lockagent.Store
	kind     lockagent.LockKind // of its requests
	id       lockagent.AgentID
	messages *Messages
}

func (p *party) tenure(number uint64) lockagent.Tenure {
	return lockagent.Tenure{Agent: p.id, Number: number}
}

// wish is a request for a lease that does not end in the case.
func (p *party) wish(name lockagent.Name, number uint64) lockagent.AcquireRequest {
	return lockagent.AcquireRequest{Name: name, Kind: p.kind, Tenure: p.tenure(number), Lease: minute}
}

// queueing is a request that asks for a place in the queue.
func (p *party) queueing(name lockagent.Name, number uint64) lockagent.AcquireRequest {
	req := p.wish(name, number)
	req.Queue = true
	return req
}

// try acquires and returns the reply and the error.
func (p *party) try(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
	p.t.Helper()
	return Acquire(p.t, p.store, req)
}

// get acquires and expects to be granted the lock.
func (p *party) get(req lockagent.AcquireRequest) lockagent.AcquireReply {
	p.t.Helper()
	reply, err := p.try(req)
	if err != nil || !reply.Granted {
		p.t.Fatalf("Acquire(%s) = %+v, %v; want it granted", req.Tenure, reply, err)
	}
	return reply
}

// acquire is get with the request of wish.
func (p *party) acquire(name lockagent.Name, number uint64) lockagent.AcquireReply {
	p.t.Helper()
	return p.get(p.wish(name, number))
}

// refused acquires and expects that holder has the lock.
func (p *party) refused(name lockagent.Name, number uint64, holder string) lockagent.AcquireReply {
	p.t.Helper()
	reply, err := p.try(p.wish(name, number))
	if err != nil || reply.Granted || reply.Holder != holder {
		p.t.Fatalf("Acquire(%s) = %+v, %v; want it refused, because of holder %q", p.tenure(number), reply, err, holder)
	}
	return reply
}

func (p *party) renewal(name lockagent.Name, number uint64, lease time.Duration) lockagent.RenewRequest {
	return lockagent.RenewRequest{Name: name, Kind: p.kind, Tenure: p.tenure(number), Lease: lease}
}

func (p *party) renew(name lockagent.Name, number uint64, lease time.Duration) lockagent.RenewReply {
	p.t.Helper()
	reply, err := Renew(p.t, p.store, p.renewal(name, number, lease))
	if err != nil {
		p.t.Fatalf("Renew(%s): %v", p.tenure(number), err)
	}
	return reply
}

// ending is a request to release.
func (p *party) ending(name lockagent.Name, number uint64) lockagent.ReleaseRequest {
	return lockagent.ReleaseRequest{Name: name, Kind: p.kind, Tenure: p.tenure(number)}
}

// end releases and expects Released in the reply.
func (p *party) end(req lockagent.ReleaseRequest, released bool) lockagent.ReleaseReply {
	p.t.Helper()
	reply, err := Release(p.t, p.store, req)
	if err != nil || reply.Released != released {
		p.t.Fatalf("Release(%+v) = %+v, %v; want Released %t", req, reply, err, released)
	}
	return reply
}

// release is end with the request of ending.
func (p *party) release(name lockagent.Name, number uint64, released bool) lockagent.ReleaseReply {
	p.t.Helper()
	return p.end(p.ending(name, number), released)
}

// withdraws releases a tenure that does not have the lock, as if one of its Acquires were
// unanswered.
func (p *party) withdraws(name lockagent.Name, number uint64) {
	p.t.Helper()
	req := p.ending(name, number)
	req.Unanswered = true
	p.end(req, false)
}

// breaking is a request to break a lock.
func (p *party) breaking(name lockagent.Name) lockagent.BreakRequest {
	return lockagent.BreakRequest{Name: name, Kind: p.kind}
}

// breaks breaks a lock and expects broken in the reply. It skips the rest of the case if the store cannot.
func (p *party) breaks(name lockagent.Name, broken bool) {
	p.t.Helper()
	if !p.offers(withOperator) {
		p.t.Skip("the store has no Operator")
	}
	got, err := breakLock(p.t, p.store, p.breaking(name))
	if err != nil || got != broken {
		p.t.Fatalf("Break(%q) = %t, %v; want %t", name, got, err, broken)
	}
}

func (p *party) inspect(name lockagent.Name) lockagent.Inspection {
	p.t.Helper()
	seen, err := inspect(p.t, p.store, name, p.kind)
	if err != nil {
		p.t.Fatalf("Inspect(%q): %v", name, err)
	}
	return seen
}

// awaitFree waits until a lock is free. It reports whether the lock became free; if not, the case has
// failed.
func (p *party) awaitFree(name lockagent.Name) bool {
	p.t.Helper()
	return awaitFree(p.t, p.store, name, p.kind)
}

func (p *party) time() lockagent.StoreTime {
	p.t.Helper()
	at, err := Time(p.t, p.store)
	if err != nil {
		p.t.Fatalf("Time: %v", err)
	}
	return at
}

// sees expects that holder has the lock, or that the lock is free if holder is empty.
func (p *party) sees(name lockagent.Name, holder string) lockagent.Inspection {
	p.t.Helper()
	seen := p.inspect(name)
	if seen.Held != (holder != "") || seen.Holder != holder {
		p.t.Fatalf("Inspect(%q) = %+v; want holder %q", name, seen, holder)
	}
	return seen
}

func (p *party) subscribe(name lockagent.Name) *Subscription {
	p.t.Helper()
	sub := subscribe(p.t, p.store, name, p.kind)
	if p.t.Failed() {
		p.t.FailNow()
	}
	return sub
}

// close closes the agent's store.
func (p *party) close() {
	p.t.Helper()
	if err := p.store.Close(); err != nil {
		p.t.Errorf("Close: %v", err)
	}
}

// hears waits for a message about theLock.
func (p *party) hears(kind lockagent.MessageKind, number uint64) lockagent.Message {
	p.t.Helper()
	message, ok := p.messages.Await(kind, theLock, p.tenure(number))
	if !ok {
		p.t.FailNow()
	}
	if releasable := kind == lockagent.MessagePassed || kind == lockagent.MessageWanted; releasable &&
		message.LockKind.OrPlain() != p.kind {
		p.t.Errorf("told %+v about a %s lock", message, p.kind)
	}
	return message
}

// answered fails the case if err is not nil. Unlike the other methods, it may be called from
// any goroutine.
func (p *party) answered(_ any, err error) {
	p.t.Helper()
	if err != nil {
		p.t.Errorf("a call that was in order: %v", err)
	}
}

// eventually calls reached until it reports true.
func eventually(t *testing.T, state string, reached func() bool) {
	t.Helper()
	if !poll(func() (time.Duration, bool) { return 0, reached() }) {
		t.Fatalf("waited %v until %s", Patience, state)
	}
}

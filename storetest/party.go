package storetest

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

const (
	// theLock is the lock that a case is about if it is about only one.
	theLock lockagent.Name = "orders/42"

	// minute is the lease of a tenure that is not to end by itself. It is not
	// longer, because a renewal may be put off for a part of it.
	minute = time.Minute

	// brief is the lease of a tenure that is to end by itself. Until that is
	// waited for nothing may depend on the lock being held still.
	brief = 20 * time.Millisecond
)

// party is one agent in a case: an identity, and the store that it uses. What it
// does fails the case at once if the store does not answer, or answers with an
// error, except where an error is returned.
type party struct {
	t     *testing.T
	store lockagent.Store
	id    lockagent.AgentID
}

func newParty(t *testing.T, store lockagent.Store) *party {
	return &party{t: t, store: store, id: lockagent.NewAgentID()}
}

// pair returns two agents with a store each, on the same data.
func (h *Harness) pair(t *testing.T) (one, two *party) {
	return newParty(t, h.Store), newParty(t, h.open(t))
}

func (p *party) tenure(number uint64) lockagent.Tenure {
	return lockagent.Tenure{Agent: p.id, Number: number}
}

// wish is a request for one token and a lease that does not end in the case.
func (p *party) wish(name lockagent.Name, number uint64) lockagent.AcquireRequest {
	return lockagent.AcquireRequest{Name: name, Tenure: p.tenure(number), Lease: minute, Tokens: 1}
}

// try acquires and returns whatever comes of it.
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

// acquire is get with the plainest request.
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

func (p *party) renew(name lockagent.Name, number uint64, lease time.Duration) lockagent.RenewReply {
	p.t.Helper()
	reply, err := Renew(p.t, p.store, lockagent.RenewRequest{Name: name, Tenure: p.tenure(number), Lease: lease})
	if err != nil {
		p.t.Fatalf("Renew(%s): %v", p.tenure(number), err)
	}
	return reply
}

// release releases and expects the reply to say so, or not.
func (p *party) release(name lockagent.Name, number uint64, released bool) lockagent.ReleaseReply {
	p.t.Helper()
	reply, err := Release(p.t, p.store, lockagent.ReleaseRequest{Name: name, Tenure: p.tenure(number)})
	if err != nil || reply.Released != released {
		p.t.Fatalf("Release(%s) = %+v, %v; want Released %t", p.tenure(number), reply, err, released)
	}
	return reply
}

// breaks breaks a lock and expects the reply to say so, or not.
func (p *party) breaks(name lockagent.Name, broken bool) {
	p.t.Helper()
	got, err := Break(p.t, p.store, name)
	if err != nil || got != broken {
		p.t.Fatalf("Break(%q) = %t, %v; want %t", name, got, err, broken)
	}
}

func (p *party) inspect(name lockagent.Name) lockagent.Inspection {
	p.t.Helper()
	seen, err := Inspect(p.t, p.store, name)
	if err != nil {
		p.t.Fatalf("Inspect(%q): %v", name, err)
	}
	return seen
}

// sees expects the lock to be held by holder, or to be free if that is empty.
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
	sub := Subscribe(p.t, p.store, name)
	if p.t.Failed() {
		p.t.FailNow()
	}
	return sub
}

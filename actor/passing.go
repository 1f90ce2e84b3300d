package actor

import (
	"cmp"
	"context"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// tend opens the gate, or shuts it, as the state machine says after a step.
func (l *lock) tend() {
	if g := l.entry.gate.Load(); g != nil {
		until, ok := l.admits()
		g.set(ok, until)
	}
}

// admits is [lockstate.State.Admits] for the readers of a gate.
func (l *lock) admits() (until lockstate.Instant, ok bool) {
	s, ok := l.state.(*lockstate.State)
	if !ok || l.draining {
		return 0, false
	}
	return s.Admits(l.now)
}

// admit lets a request pass the gate, or makes it one that opens a gate. It reports whether the request is
// answered.
func (l *lock) admit(r *request) bool {
	if !r.waited || !r.agent.passes(&r.Request) {
		return false
	}
	if _, ok := l.admits(); !ok {
		return false
	}
	if g := l.entry.gate.Load(); g != nil {
		if h, ok := g.enter(r.Owner); ok {
			r.token = g.request.token
			r.deliver(l.entry.name, outcome{hold: h, count: 1})
			return true
		}
	}
	r.gate = newGate(r)
	return false
}

// passes reports whether a caller who waits for the grant may pass a gate.
func (a *Agent) passes(r *Request) bool {
	return r.ByGrant && r.Mode == lockagent.Shared && r.Lease == 0 && !r.Session &&
		r.Granted == nil && r.Received == nil && r.Over == nil && r.Watch == nil && a.cfg.Recorder == nil && a.cfg.Journal == nil
}

// pass has a caller pass the gate of a lock, if there is one and it is open.
func (a *Agent) pass(ctx context.Context, name lockagent.Name, req *Request) (lockagent.Grant, bool) {
	if !a.passes(req) || check(ctx, name, req) != nil || a.registry.closed.Load() {
		return lockagent.Grant{}, false
	}
	g := a.registry.gate(name, req.Kind.OrPlain())
	if g == nil {
		return lockagent.Grant{}, false
	}
	h, ok := g.enter(req.Owner)
	if !ok {
		return lockagent.Grant{}, false
	}
	return h.grant(), true
}

// watchGate has the next reader who passes tell the actor. The state machine wants to know that readers have joined since the
// last renewal, not how many.
func (l *lock) watchGate() {
	if g := l.entry.gate.Load(); g != nil {
		g.tells.Store(true)
	}
}

// shutGate forgets the gate of a request whose grant is over.
func (l *lock) shutGate(r *request) {
	if r.gate != nil {
		l.entry.gate.CompareAndSwap(r.gate, nil)
	}
}

// openGate makes the gate of a request that was granted the gate of the lock. Nobody tends the one before any more. So it
// stays shut.
func (l *lock) openGate(r *request) {
	if r.gate != nil {
		if before := l.entry.gate.Swap(r.gate); before != nil {
			before.set(false, 0)
		}
	}
}

// hold is [lockstate.State.Hold]. For readers behind a gate it names one of them.
func (l *lock) hold() (owner lockagent.Owner, token lockagent.Token, count int, tenure uint64) {
	owner, token, count, tenure = l.state.Hold()
	if g := l.entry.gate.Load(); g != nil && owner == g.request.Owner {
		owner = cmp.Or(g.someone(), owner)
	}
	return owner, token, count, tenure
}

// unfold replaces the grant of a gate by those of the readers inside. It is for a snapshot.
func (l *lock) unfold(of lockstate.HeldGrant, readers []*reader) (grants []lockstate.HeldGrant) {
	of.ClaimBy = 0
	for _, r := range readers {
		of.Request.ID, of.Request.Owner = lockstate.RequestID(l.agent.fresh.Add(1)), r.owner
		grants = append(grants, of)
	}
	return grants
}

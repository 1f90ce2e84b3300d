package actor

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
	"github.com/lockagent/lockagent/internal/saved"
	"github.com/lockagent/lockagent/internal/slot"
)

// Detach ends the agent and gives nothing back, so that another process can go on from its journal: see [Resume]. Every
// hold ends in this process, with [lockagent.LostClosed]. No event tells of that, because the hold goes on elsewhere.
// Requests that wait are answered with [lockagent.ErrClosed], and go on to wait elsewhere as well.
//
// Detach tells the store nothing and renews nothing. A lock that nobody resumes is free when
// its lease has run out. So the next process should start soon. Without [Config.Journal] no process can go on with the
// locks: close such an agent instead.
//
// Calls to the store may still be under way when Detach returns. The journal is right whether
// and whenever they take effect. [Agent.Close] waits until they are answered. Call it before
// the store is closed.
//
// Further calls return when the first one does. After Close there is nothing to leave. Do not call
// Detach from a callback of the agent.
func (a *Agent) Detach() {
	a.ending.detach.Do(func() {
		a.ending.stays.Store(true)
		a.identity.settle(verdictCut)
		a.deafen() // the store passes no lock to an agent that does not listen
		var locks sync.WaitGroup
		a.registry.close(func(e *entry) {
			locks.Add(1)
			send(e, &detachMsg{left: &locks})
		})
		locks.Wait()
		a.awaitEnd()
	})
}

// detach leaves the lock to another process.
func (l *lock) detach(m *detachMsg) {
	defer m.left.Done()
	l.draining, l.closing, l.detached = true, true, true
	l.step(lockstate.Detach{})
}

// leaveHolds tells the holders that their holds are over in this process.
func (l *lock) leaveHolds() {
	for r := range l.holds {
		l.forget(r)
		r.end(r.lost(lockagent.LostClosed, ""))
	}
}

// Resume starts an agent that goes on with the locks of another one, as its [Journal] tells of them: [saved.Read] makes
// from of it. The other agent was detached, see [Agent.Detach], or ended without warning. The new one has its identity,
// its holds and its tokens. Resume from a journal once, on the machine where it was written. cfg is as for [New], but
// without Label. Its ID is empty or that of the other agent. The error is a [*lockagent.OptionError] or joins several.
//
// [Agent.Resumed] has the grants. The agent asks the store whether it still has each tenure.
// Until the answer, a hold is trusted until its old deadline, and there is no hand-off. Holds
// whose deadline has passed are over: if the journal may have missed renewals, call [saved.Agent.Confirm] before.
// Requests that waited go on to wait, for no longer than before, and keep their places in
// the agent's queue and in the store's. Tenures that nobody holds or waits for are withdrawn.
//
// If the machine was booted since, nobody knows how much time has passed. Then no hold and no
// request goes on, and all tenures are withdrawn.
//
// On systems other than Linux only the wall clock tells how much time has passed, so nobody
// may set it back in between. If somebody set it forward, holds end early. So an owner must ask
// the new process for the deadline, and not rely on what the old one told.
func Resume(cfg Config, from saved.Agent) (*Agent, error) {
	if err := from.Check(); err != nil {
		return nil, err
	}
	if cfg.ID != "" && cfg.ID != from.ID {
		return nil, wrongOption("Config.ID", "%q is not the agent of the journal, %q; leave it out", cfg.ID, from.ID)
	}
	cfg.ID = from.ID
	return open(cfg, &from)
}

// ResumedRequest is a hold that goes on from another process, or a request that goes on to wait.
type ResumedRequest struct {
	Name    lockagent.Name
	Owner   lockagent.Owner
	Token   lockagent.Token
	Kind    lockagent.LockKind
	Mode    lockagent.Mode
	Permits int           // of a semaphore; 0 is 1
	Lease   time.Duration // the fixed lease of the request, or 0 for a kept lease
	Session bool          // Owner may hold the lock several times
	Tag     string        // of the request
	Waits   bool          // it has not been granted yet, and has no token
	For     time.Duration // since it was granted or, if it waits, asked for

	// Remaining is for how long a hold can be trusted, as far as the owner knows: no renewal since then counts.
	Remaining time.Duration

	// Grant delivers the grant, like the channel of [Agent.Acquire]: it has capacity 1, and the agent closes it. That
	// of a hold is closed already. If it delivers nothing, the hold is over. To end a wait, call [Agent.Leave].
	Grant <-chan lockagent.Grant
}

// Resumed returns the holds that the agent has resumed, in the order of the names of their
// locks, the oldest first. The requests that wait come after the holds of their lock. Claim each hold: receive its
// grant. A grant that nobody claims within Config.Claim is given back. Until then it blocks others. An agent of [New]
// has none.
func (a *Agent) Resumed() []ResumedRequest { return slices.Clone(a.resumed) }

// load makes the locks that another agent has left, and begins the journal. It returns a message for each lock. The
// actors make no calls to the store before they get it.
func (a *Agent) load(from *saved.Agent) (messages []*resumedMsg) {
	var locks []saved.Change // for the journal
	if from != nil {
		now := a.clock.now()
		passed, known := from.Age()
		shift := now.Sub(from.Taken.At) - passed
		for i := range from.Locks {
			of := &from.Locks[i]
			m := &resumedMsg{callers: make(map[*request]context.Context)}
			m.entry = a.registry.loaded(of.Name, of.Kind, func(l *lock) {
				l.load(of, m, known, now, shift)
				if l.scribe != nil {
					locks = append(locks, l.changes()...)
				}
			})
			messages = append(messages, m)
		}
	}
	if a.journaling != nil {
		a.journaling.journal.Begin(append(locks, a.journaling.record()))
	}
	return messages
}

// load restores the lock. If nobody knows how much time has passed, it has no request. shift is as for
// [lockstate.Resume]. The lock cannot be found yet.
func (l *lock) load(from *saved.Lock, m *resumedMsg, known bool, now lockstate.Instant, shift time.Duration) {
	n, requests := from.Snapshot(), from.Requests
	if !known {
		n, requests = n.WithoutHolds(), nil
	}
	for i := range n.Requests {
		if r := &n.Requests[i]; r.Tenure != 0 {
			r.ClaimBy = now - lockstate.Instant(shift-l.agent.cfg.Claim) // on the clock of the agent before
		}
	}
	l.state = l.agent.machines[l.entry.kind](l.entry.name, n, shift, now)
	if l.state.InDoubt() {
		l.returns = l.agent.returns.present()
		l.agent.returns.add(l.returns)
	}
	l.now, l.used = now, now
	replicas := make(map[uint64]int)
	for i := range n.Tenures {
		replicas[n.Tenures[i].Number] = n.Tenures[i].Replicas
	}
	counts := make(map[lockagent.Owner]int)
	for i := range requests {
		of := &requests[i]
		r, listed := l.restore(of)
		if of.Tenure != 0 {
			counts[of.Owner]++
			r.replicas, r.total = small(replicas[of.Tenure]), of.Total
			l.lastTotal = cmp.Or(of.Total, l.lastTotal)
			l.resumeHold(r, of, listed, shift)
			r.watchResumed(listed, m.callers)
			r.deliver(l.entry.name, outcome{hold: r.hold(), count: counts[of.Owner]})
			continue
		}
		if of.Until != 0 {
			r.waitUntil = of.Until + lockstate.Instant(shift)
		}
		waits := of.Request
		waits.Arrived += lockstate.Instant(shift)
		m.waits = append(m.waits, waits)
		listed.For = l.now.Sub(waits.Arrived)
		r.watchResumed(listed, m.callers)
	}
}

// goOn begins the work of a lock that was loaded.
func (l *lock) goOn(m *resumedMsg) {
	for r := range l.requests.all {
		switch caller := m.callers[r]; {
		case caller != nil && (!r.granted() || !r.claimed()): // a message of the store may have come first
			r.caller = caller
			r.watch()
		case !r.granted():
			r.watch()
		}
	}
	for i := range m.waits { // the log of this process says who waits
		if r := l.requests.get(m.waits[i].ID); r != nil && !r.granted() {
			l.publish(r, &lockstate.Event{
				Kind: lockstate.Queued, Now: l.now, Request: m.waits[i], Wait: lockstate.Wait{Waiters: i + 1},
			})
		}
	}
	l.tellAt = max(l.now, 1) // the next tick tells of them, however short this process lives
	l.step(lockstate.Tick{})
}

// watchResumed has somebody learn what becomes of a request that was restored.
func (r *request) watchResumed(listed *ResumedRequest, callers map[*request]context.Context) {
	if ask := r.agent.cfg.Resumed; ask != nil {
		r.agent.callback("Config.Resumed", func() {
			callers[r], r.Watch, r.Who = ask(*listed)
		})
	}
}

// restore restores a request that waits or holds, and lists it.
func (l *lock) restore(of *saved.Request) (*request, *ResumedRequest) {
	r := &request{
		agent: l.agent, entry: l.entry, caller: context.Background(), Request: Request{
			Owner: of.Owner, Kind: l.entry.kind, Mode: modeOf(of.Mode), Permits: of.Permits,
			Lease: of.Lease, Session: of.Session, Try: of.Try, Outlive: of.Outlive, NoRest: of.NoRest,
			Tag:  of.Tag,
			Slot: slot.New[lockagent.Grant](),
		},
		id: of.ID,
	}
	l.requests.put(r.id, r)
	l.agent.resumed = append(l.agent.resumed, ResumedRequest{
		Name: l.entry.name, Owner: r.Owner, Kind: r.Kind, Mode: r.Mode, Permits: r.Permits,
		Lease: r.Lease, Session: r.Session, Tag: r.Tag, Waits: of.Tenure == 0, Grant: r.Slot.C(),
	})
	return r, &l.agent.resumed[len(l.agent.resumed)-1]
}

// resumeHold restores the hold of a request.
func (l *lock) resumeHold(r *request, of *saved.Request, listed *ResumedRequest, shift time.Duration) {
	r.token, r.tenure = of.Token, of.Tenure
	r.deadline.Store(int64(l.state.Deadline(of.Tenure)))
	if of.Fixed != 0 {
		r.fixed.Store(int64(of.Fixed) + int64(shift))
	}
	listed.Token = of.Token
	listed.For, listed.Remaining = l.now.Sub(of.Since+lockstate.Instant(shift)), r.Remaining()
}

package actor

import (
	"sync"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
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
		r.end(r.lost(lockagent.LostClosed))
	}
}

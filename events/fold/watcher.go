package fold

import (
	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
)

// Watcher is told of each step of a fold, see [Fold.Watch], while a record is applied. It must not change the
// fold, nor keep a hold or a record. A hold is nil if the log does not have the hold that the record is about.
type Watcher interface {
	// Granted tells that a hold begins.
	Granted(*Hold)

	// Appeared tells that a hold goes on of which the log does not have the grant.
	Appeared(*Hold, *events.Record)

	// Confirmed tells that a hold goes on. The hold is as it was before.
	Confirmed(*Hold, *events.Record)

	// Reentered tells that the owner of a hold was granted the lock again. The hold is as it was before.
	Reentered(LockKey, *Hold, *events.Record)

	// Renewed tells that the store confirmed the lease of a tenure.
	Renewed(LockKey, *events.Record)

	// Partly tells that an owner gave back one of several grants. The hold is as it was before.
	Partly(LockKey, *Hold, *events.Record)

	// Ended tells the end of a hold, which is as it was before. If it is ungranted, the log does not have its grant.
	Ended(h *Hold, r *events.Record, ungranted bool)

	// Replaced tells that a hold without an end is over, as another record shows.
	Replaced(h *Hold, by *events.Record)

	// Returned tells that a tenure is over.
	Returned(LockKey, *events.Record)

	// Broke tells that an operator broke the lock of another agent.
	Broke(LockKey, *events.Record)

	// Changed tells of the number of permits of a semaphore.
	Changed(LockKey, *events.Record)

	// Joined tells that two identities are those of one store. From now on the first stands for both.
	Joined(to, from string)
}

// Watch has a watcher told of each step from now on, such as an audit. The fold then knows nobody who waits, finds no
// hold superseded, and forgets no agent by itself. Use [Fold.Follow] instead of [Fold.Apply]. Call Watch before the
// first record, or of a fold that was watched before.
func (f *Fold) Watch(w Watcher) { f.watch = w }

// Follow applies a record, and tells the watcher of each step. The record must not change meanwhile.
func (f *Fold) Follow(r *events.Record) { f.apply(f.agent(r.Agent), r) }

// Holds returns the holds of an agent that go on, in the order of their records. They must not be changed.
func (f *Fold) Holds(agent lockagent.AgentID) []*Hold {
	if a := f.agents[agent]; a != nil && len(a.holds) > 0 {
		return a.sorted()
	}
	return nil
}

// SetGone marks all holds of an agent whose log has ended, or goes on after all.
func (f *Fold) SetGone(agent lockagent.AgentID, gone bool) {
	if a := f.agents[agent]; a != nil {
		f.setAllGone(a, gone)
	}
}

// Forget forgets holds of an agent. It has not told their end, but they are over.
func (f *Fold) Forget(agent lockagent.AgentID, over func(*Hold) bool) {
	a := f.agents[agent]
	if a == nil {
		return
	}
	for h, l := range a.holds {
		if over(h) {
			f.close(a, l, h)
			f.spare = append(f.spare, h)
			if l.empty() && l != f.latest {
				delete(f.locks, l.LockKey)
			}
		}
	}
}

// ForgetAgent forgets an agent and all of its holds.
func (f *Fold) ForgetAgent(agent lockagent.AgentID) {
	f.Forget(agent, func(*Hold) bool { return true })
	delete(f.agents, agent)
}

// Revive goes on with an agent that was forgotten.
func (f *Fold) Revive(s AgentState) { f.agent(s.Agent).AgentState = s }

// Clone returns a fold that has what f has, and shares nothing with it. It has no watcher.
func (f *Fold) Clone() *Fold {
	s := f.snapshot()
	c, err := s.resume()
	if err != nil {
		panic(err) // f has the agents of all holds
	}
	return c
}

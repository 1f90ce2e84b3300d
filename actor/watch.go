package actor

// Watcher is told what becomes of a request, from its wait to the end of its hold: see [Request.Watch]. The agent calls
// one method after the other, in the order of the steps. A method must not block, and must not call the agent.
type Watcher interface {
	// Queued: the lock could not be granted at once, and the request waits. holder has the lock: an owner of this
	// agent, or what the store knows. It is empty if that is not known.
	Queued(holder string)
	// Granted: the lock was granted. The grant is delivered next. The owner may make so many holds of it: see
	// [Request.Holds].
	Granted(holds int)
	// Received reports whether the owner has the grant, which somebody has received. A watcher who receives grants and
	// passes them on reports false until then, so that [Agent.Release] does not give up a grant that is on its way.
	// Unlike the others, it may be called at any time, and again.
	Received() bool
	// Renewed: the deadline of the hold may be later than before. It is not earlier.
	Renewed()
	// Uncertain: a renewal failed, after one that did not. The deadline stands. Renewed or Ended follows.
	Uncertain(err error)
	// Warned: what [lockagent.Grant.Wanted] and [lockagent.Grant.Uncertain] tell of the hold has changed, after the
	// first call of either.
	Warned(wanted, uncertain bool)
	// Ended: the request was denied, with the error of its grant, or its hold is over, with the cause of that. Nobody
	// else has been granted the lock yet. It is the last call. The cause is [lockagent.LostUnclaimed] if nobody received
	// the grant in time, and [lockagent.ErrClosed] if nobody had received it when the agent closed.
	Ended(cause error)
}

// NopWatcher is a [Watcher] that does nothing. It is for watchers that need few of the methods.
type NopWatcher struct{}

// These implement [Watcher].
func (NopWatcher) Queued(string)     {}
func (NopWatcher) Granted(int)       {}
func (NopWatcher) Received() bool    { return true }
func (NopWatcher) Renewed()          {}
func (NopWatcher) Uncertain(error)   {}
func (NopWatcher) Warned(bool, bool) {}
func (NopWatcher) Ended(error)       {}

// watched tells the watcher of a request, if there is one. A caller who needs a closure for that makes it only if there
// is one: most requests have none, and would pay for it.
func (r *request) watched(tell func(Watcher)) {
	if r.Watch != nil {
		r.agent.callback("Request.Watch", func() { tell(r.Watch) })
	}
}

// uncertain tells those who watch holds of a tenure that a renewal failed.
func (l *lock) uncertain(tenure uint64, err error) {
	for r := range l.holds {
		if r.tenure == tenure {
			r.watched(func(w Watcher) { w.Uncertain(err) })
		}
	}
}

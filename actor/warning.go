package actor

import "github.com/lockagent/lockagent/internal/warning"

// warnings are what a holder can wait for while it has the lock. A hold has none until somebody asks. They are guarded
// by the mutex of the hold's [finish].
type warnings struct{ wanted, uncertain warning.Warning }

// warn changes the warnings of a hold. If nobody has asked for them, they do not matter.
func (r *request) warn(change func(*warnings)) {
	r.mu.Lock()
	var before, after warnings
	if r.finish.warnings != nil {
		before = *r.finish.warnings
		change(r.finish.warnings)
		after = *r.finish.warnings
	}
	r.mu.Unlock()
	wanted, uncertain := after.wanted.Given(), after.uncertain.Given()
	if r.Watch != nil && (wanted != before.wanted.Given() || uncertain != before.uncertain.Given()) {
		r.watched(func(w Watcher) { w.Warned(wanted, uncertain) })
	}
}

// warning returns a channel of a hold. The actor has to learn of the first who asks. A hold that is over has no
// warnings any more.
func (r *request) warning(which func(*warnings) *warning.Warning) <-chan struct{} {
	r.mu.Lock()
	if r.finish.warnings == nil {
		r.finish.warnings = new(warnings)
	}
	w := which(r.finish.warnings)
	first := !w.Asked() && r.why == nil
	c := w.Channel()
	r.mu.Unlock()
	if first {
		send(r.entry, &watchMsg{request: r})
	}
	return c
}

// Wanted implements [lockagent.Hold].
func (r *request) Wanted() <-chan struct{} {
	return r.warning(func(w *warnings) *warning.Warning { return &w.wanted })
}

// Uncertain implements [lockagent.Hold].
func (r *request) Uncertain() <-chan struct{} {
	return r.warning(func(w *warnings) *warning.Warning { return &w.uncertain })
}

// watchFor begins to tell a hold whether others want the lock, and tells what is known now.
func (l *lock) watchFor(r *request) {
	if l.requests.get(r.id) != r || !r.granted() {
		return
	}
	wanted, uncertain := l.state.Wanted(), l.state.Uncertain(r.id)
	r.warn(func(w *warnings) {
		if w.wanted.Asked() && !r.watches {
			r.watches = true
			l.watching++
		}
		if wanted && w.wanted.Asked() {
			w.wanted.Set(true)
		}
		w.uncertain.Set(uncertain)
	})
	l.wanted = wanted
}

// tellWanted tells the holds that ask when others begin to want the lock. A hold that was told stays so.
func (l *lock) tellWanted() {
	if l.watching == 0 {
		return
	}
	before := l.wanted
	l.wanted = l.state.Wanted()
	if !l.wanted || before {
		return
	}
	for r := range l.holds {
		if r.watches {
			r.warn(func(w *warnings) { w.wanted.Set(true) })
		}
	}
}

// tellUncertain tells the holds of a tenure whether they are uncertain.
func (l *lock) tellUncertain(tenure uint64) {
	for r := range l.holds {
		if r.tenure == tenure {
			l.noteUncertain(r)
		}
	}
}

// noteUncertain tells a hold whether it is uncertain.
func (l *lock) noteUncertain(r *request) {
	uncertain := l.state.Uncertain(r.id)
	r.warn(func(w *warnings) { w.uncertain.Set(uncertain) })
}

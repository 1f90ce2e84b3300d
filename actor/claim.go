package actor

import (
	"cmp"
	"sync"
	"time"

	"github.com/lockagent/lockagent/internal/lockstate"
)

// claimShort replaces a longer Config.Claim for the next grant of a lock, after nobody received one. A
// caller that forgets one request often forgets several, and each would keep the lock for
// Config.Claim. For each further one the time is halved, down to claimShortest: a loop may
// forget ten requests a second, and is to come to the one for which it waits.
const (
	claimShort    = 100 * time.Millisecond
	claimShortest = time.Millisecond
)

// neglect notes a grant that nobody received in time. A request with a claim of its own says nothing of others.
func (l *lock) neglect(r *request) {
	if r.Claim == 0 {
		l.neglected = max(l.now, 1)
		l.neglects++
	}
	l.agent.warn(&l.agent.unclaimed, "lockagent: a grant that nobody received was given back; further ones are not logged",
		"lock", string(l.entry.name), "owner", string(r.Owner), "after", cmp.Or(r.Claim, l.agent.cfg.Claim),
		"advice", "receive from the channel of every request, or end the request's context")
}

// attend notes a grant that somebody received. A caller who waits in Lock always receives its
// grant, so that says nothing of other callers.
func (l *lock) attend(r *request) {
	if !r.waited && r.Claim == 0 {
		l.neglected, l.neglects = 0, 0
	}
}

// hurry shortens the claim of a grant, if nobody received an earlier one, or its request asks for that.
func (l *lock) hurry(r *request) {
	most := l.agent.cfg.Claim
	claim := r.Claim
	if claim == 0 && l.neglected != 0 && l.now.Sub(l.neglected) <= most {
		claim = max(claimShort>>min(l.neglects-1, 10), claimShortest)
	}
	if claim == 0 || claim >= most {
		return
	}
	overdue := lockstate.Cancel{ID: r.id}
	r.timer = time.AfterFunc(claim, func() { send(r.entry, &commandMsg{command: overdue}) })
}

// warn logs a warning once for each agent and kind.
func (a *Agent) warn(once *sync.Once, text string, args ...any) {
	once.Do(func() { a.callback("logger", func() { a.cfg.Logger.Warn(text, args...) }) })
}

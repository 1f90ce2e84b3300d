package actor

import (
	"sync"
	"time"
)

// claimShort is how long the next grants of a lock may lie in their channels when one has
// been found that nobody had received. A caller that forgets one request often forgets
// several, and each would keep the lock for Config.Claim.
const claimShort = 100 * time.Millisecond

// neglect is told of a grant that nobody received in time.
func (l *lock) neglect(r *request) {
	l.neglected = max(l.now, 1)
	l.agent.warn(&l.agent.unclaimed, "lockagent: a grant that nobody received was given back; further ones are not logged",
		"lock", string(l.entry.name), "owner", string(r.Owner), "after", l.agent.cfg.Claim,
		"advice", "receive from the channel of every request, or end the request's context")
}

// attend is told of a grant that somebody received. Of callers who wait in Lock that was to
// be expected, so it says nothing of the others.
func (l *lock) attend(r *request) {
	if !r.waited {
		l.neglected = 0
	}
}

// hurry has a grant that nobody has received yet taken back soon, if others were found
// that nobody received at all.
func (l *lock) hurry(r *request) {
	claim := l.agent.cfg.Claim
	if l.neglected == 0 || r.waited || claim <= claimShort || l.now.Sub(l.neglected) > claim {
		return
	}
	r.timer = time.AfterFunc(claimShort, func() { send(r.entry, &overdueMsg{request: r}) })
}

// warn logs something that is said once.
func (a *Agent) warn(once *sync.Once, text string, args ...any) {
	once.Do(func() { a.callback("logger", func() { a.cfg.Logger.Warn(text, args...) }) })
}

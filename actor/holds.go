package actor

import (
	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// holds iterates over the requests that are granted and not over. yield may forget the one that it gets.
func (l *lock) holds(yield func(*request) bool) {
	for r := range l.requests.all {
		if r.granted() && !yield(r) {
			return
		}
	}
}

// releasable is the youngest hold whose grant the owner has received. A grant that the owner
// has not received is not released: its receiver would not know. hidden tells that all holds
// of the owner are such. Holds of another mode do not count, unless the mode is empty.
func (l *lock) releasable(owner lockagent.Owner, mode lockagent.Mode) (found *request, hidden bool) {
	l.state.Grants(owner, func(id lockstate.RequestID) bool {
		switch r := l.requests.get(id); {
		case mode != "" && modeIn(r.Mode) != modeIn(mode):
		case r.isReceived():
			found = r
		default:
			hidden = true
		}
		return found == nil
	})
	return found, hidden && found == nil
}

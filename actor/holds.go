package actor

import (
	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// holds is a list of the requests of a lock that are granted and not over, the youngest first.
// Most often there is one, and the youngest ends first.
type holds struct{ youngest *request }

func (h *holds) add(r *request) {
	if r.older = h.youngest; r.older != nil {
		r.older.younger = r
	}
	h.youngest = r
}

func (h *holds) remove(r *request) {
	if r.younger != nil {
		r.younger.older = r.older
	} else if h.youngest == r {
		h.youngest = r.older
	}
	if r.older != nil {
		r.older.younger = r.younger
	}
	r.older, r.younger = nil, nil
}

// all iterates over the holds. yield may remove the hold that it gets.
func (h *holds) all(yield func(*request) bool) {
	for r := h.youngest; r != nil; {
		older := r.older
		if !yield(r) {
			return
		}
		r = older
	}
}

// releasable is the youngest hold whose grant the owner has received. A grant that the owner
// has not received is not released: its receiver would not know. hidden tells that all holds
// of the owner are such. Holds of another mode do not count, unless the mode is empty.
func (l *lock) releasable(owner lockagent.Owner, mode lockagent.Mode) (found *request, hidden bool) {
	l.state.Grants(owner, func(id lockstate.RequestID) bool {
		switch r := l.requests.get(id); {
		case found != nil, mode != "" && modeIn(r.Mode) != modeIn(mode):
		case r.isReceived():
			found = r
		default:
			hidden = true
		}
		return found == nil
	})
	return found, hidden && found == nil
}

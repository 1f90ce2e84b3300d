package actor

import "github.com/lockagent/lockagent"

// holds is a list of the requests of a lock that are granted and not over, the youngest first.
// Most often there is one, and the youngest ends first.
type holds struct{ youngest *request }

func (h *holds) add(r *request) { r.older, h.youngest = h.youngest, r }

func (h *holds) remove(r *request) {
	for at := &h.youngest; *at != nil; at = &(*at).older {
		if *at == r {
			*at, r.older = r.older, nil
			return
		}
	}
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
func (h *holds) releasable(owner lockagent.Owner, mode lockagent.Mode) (r *request, hidden bool) {
	for r := range h.all {
		switch {
		case r.Owner != owner, mode != "" && modeIn(r.Mode) != modeIn(mode):
		case r.isReceived():
			return r, false
		default:
			hidden = true
		}
	}
	return nil, hidden
}

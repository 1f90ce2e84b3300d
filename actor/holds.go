package actor

import "github.com/lockagent/lockagent"

// holds are the requests of a lock that were granted and are not over. They form a list,
// the youngest first: most often there is one, and it is the youngest that ends.
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

// all calls yield for each hold. It may be removed meanwhile.
func (h *holds) all(yield func(*request) bool) {
	for r := h.youngest; r != nil; {
		older := r.older
		if !yield(r) {
			return
		}
		r = older
	}
}

// releasable is the youngest hold of an owner whose grant was received. A grant that lies in
// its channel is not released in the receiver's place. hidden tells that all holds of the owner
// are of that kind.
func (h *holds) releasable(owner lockagent.Owner) (r *request, hidden bool) {
	for r := range h.all {
		switch {
		case r.Owner != owner:
		case r.isReceived():
			return r, false
		default:
			hidden = true
		}
	}
	return nil, hidden
}

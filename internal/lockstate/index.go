package lockstate

import (
	"github.com/lockagent/lockagent"
)

// index finds grants among many.
type index struct {
	requests map[RequestID]cell
	sessions map[lockagent.Owner]holding
	heaps    [orderings][]cell // of the grants with fixed leases: each comes before the two below it
	entries  []entry           // of the grants, by their cells
}

// entry is where the index has a grant.
type entry struct {
	older, younger cell             // its neighbours among the grants of its session
	positions      [orderings]int32 // in the heaps, if its lease is fixed
}

func (x *index) at(i cell) *entry { return &x.entries[i-1] }

// holding tells of the grants of one session.
type holding struct {
	n        int
	youngest cell
}

// ordering is an order of the grants with fixed leases.
type ordering int

const (
	endsFirst ordering = iota
	endsLast
	longest // whose request asked for the longest lease
	orderings
)

func (k ordering) before(x, y *grant) bool {
	switch k {
	case endsFirst:
		return x.fixed < y.fixed
	case endsLast:
		return x.fixed > y.fixed
	default:
		return x.request.Lease > y.request.Lease
	}
}

func newIndex() *index {
	return &index{requests: make(map[RequestID]cell), sessions: make(map[lockagent.Owner]holding)}
}

// enter adds a grant to the index. It is the youngest one there.
func (g *grants) enter(i cell) {
	x := g.at(i)
	g.index.requests[x.request.ID] = i
	if n := len(g.cells) - len(g.index.entries); n > 0 {
		g.index.entries = append(g.index.entries, make([]entry, n)...)
	}
	if x.request.Session {
		h := g.index.sessions[x.request.Owner]
		g.index.at(i).older, g.index.at(i).younger = h.youngest, 0
		if h.youngest != 0 {
			g.index.at(h.youngest).younger = i
		}
		g.index.sessions[x.request.Owner] = holding{h.n + 1, i}
	}
	g.rank(i)
}

// rank adds a grant with a fixed lease to the heaps.
func (g *grants) rank(i cell) {
	if g.at(i).fixed != 0 {
		for k := range g.index.heaps {
			g.index.heaps[k] = append(g.index.heaps[k], i)
			g.sift(ordering(k), int32(len(g.index.heaps[k])-1))
		}
	}
}

// leave removes a grant from the index.
func (g *grants) leave(i cell) {
	x := g.at(i)
	delete(g.index.requests, x.request.ID)
	if x.request.Session {
		h := g.index.sessions[x.request.Owner]
		at := g.index.at(i)
		if at.older != 0 {
			g.index.at(at.older).younger = at.younger
		}
		if at.younger != 0 {
			g.index.at(at.younger).older = at.older
		} else {
			h.youngest = at.older
		}
		if h.n--; h.n > 0 {
			g.index.sessions[x.request.Owner] = h
		} else {
			delete(g.index.sessions, x.request.Owner)
		}
	}
	g.unrank(i)
}

// unrank removes a grant from the heaps.
func (g *grants) unrank(i cell) {
	if g.at(i).fixed != 0 {
		for k := range g.index.heaps {
			g.drop(ordering(k), g.index.at(i).positions[k])
		}
	}
}

// drop removes the grant at a position of a heap.
func (g *grants) drop(k ordering, pos int32) {
	heap := g.index.heaps[k]
	end := int32(len(heap) - 1)
	last := heap[end]
	g.index.heaps[k] = heap[:end]
	if pos < end {
		heap[pos] = last
		g.sift(k, pos)
	}
}

// sift moves the grant at a position of a heap up or down, to where it belongs.
func (g *grants) sift(k ordering, pos int32) {
	heap := g.index.heaps[k]
	i := heap[pos]
	put := func(pos int32, i cell) {
		heap[pos] = i
		g.index.at(i).positions[k] = pos
	}
	for pos > 0 && k.before(g.at(i), g.at(heap[(pos-1)/2])) {
		put(pos, heap[(pos-1)/2])
		pos = (pos - 1) / 2
	}
	for {
		below := 2*pos + 1
		if below+1 < int32(len(heap)) && k.before(g.at(heap[below+1]), g.at(heap[below])) {
			below++
		}
		if below >= int32(len(heap)) || !k.before(g.at(heap[below]), g.at(i)) {
			break
		}
		put(pos, heap[below])
		pos = below
	}
	put(pos, i)
}

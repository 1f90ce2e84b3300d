package lockstate

import (
	"github.com/lockagent/lockagent"
)

// index finds grants among many.
type index struct {
	requests map[RequestID]slot
	sessions map[lockagent.Owner]holding
	ranked   [ranks][]slot // heaps of the grants with fixed leases: each comes before the two below it
	spots    []spot        // of the grants, by their slots
}

// spot is where the index has a grant.
type spot struct {
	older, younger slot         // its neighbours among the grants of its session
	ranks          [ranks]int32 // in the heaps, if its lease is fixed
}

func (x *index) at(i slot) *spot { return &x.spots[i-1] }

// holding tells of the grants of one session.
type holding struct {
	n        int
	youngest slot
}

// rank is an order of the grants with fixed leases.
type rank int

const (
	endsFirst rank = iota
	endsLast
	longest // whose request asked for the longest lease
	ranks
)

func (k rank) before(x, y *grant) bool {
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
	return &index{requests: make(map[RequestID]slot), sessions: make(map[lockagent.Owner]holding)}
}

// enter adds a grant to the index. It is the youngest one there.
func (g *grants) enter(i slot) {
	x := g.at(i)
	g.index.requests[x.request.ID] = i
	if n := len(g.slots) - len(g.index.spots); n > 0 {
		g.index.spots = append(g.index.spots, make([]spot, n)...)
	}
	if x.request.Session {
		h := g.index.sessions[x.request.Owner]
		g.index.at(i).older, g.index.at(i).younger = h.youngest, 0
		if h.youngest != 0 {
			g.index.at(h.youngest).younger = i
		}
		g.index.sessions[x.request.Owner] = holding{h.n + 1, i}
	}
	if x.fixed != 0 {
		for k := range g.index.ranked {
			g.index.ranked[k] = append(g.index.ranked[k], i)
			g.rank(rank(k), int32(len(g.index.ranked[k])-1))
		}
	}
}

// leave removes a grant from the index.
func (g *grants) leave(i slot) {
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
	if x.fixed != 0 {
		for k := range g.index.ranked {
			g.unrank(rank(k), g.index.at(i).ranks[k])
		}
	}
}

// unrank removes the grant at a place of a heap.
func (g *grants) unrank(k rank, place int32) {
	heap := g.index.ranked[k]
	end := int32(len(heap) - 1)
	last := heap[end]
	g.index.ranked[k] = heap[:end]
	if place < end {
		heap[place] = last
		g.rank(k, place)
	}
}

// rank moves the grant at a place of a heap up or down, to where it belongs.
func (g *grants) rank(k rank, place int32) {
	heap := g.index.ranked[k]
	i := heap[place]
	put := func(place int32, i slot) {
		heap[place] = i
		g.index.at(i).ranks[k] = place
	}
	for place > 0 && k.before(g.at(i), g.at(heap[(place-1)/2])) {
		put(place, heap[(place-1)/2])
		place = (place - 1) / 2
	}
	for {
		below := 2*place + 1
		if below+1 < int32(len(heap)) && k.before(g.at(heap[below+1]), g.at(heap[below])) {
			below++
		}
		if below >= int32(len(heap)) || !k.before(g.at(heap[below]), g.at(i)) {
			break
		}
		put(place, heap[below])
		place = below
	}
	put(place, i)
}

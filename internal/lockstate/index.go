package lockstate

import (
	"github.com/lockagent/lockagent"
)

// index finds grants among many.
type index struct {
	requests map[RequestID]slot
	sessions map[lockagent.Owner]holding
	ranked   [ranks][]slot // heaps of the grants with fixed leases: each comes before the two below it
}

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
	if x.request.Session {
		h := g.index.sessions[x.request.Owner]
		x.kin, x.heirs = h.youngest, 0
		if x.kin != 0 {
			g.at(x.kin).heirs = i
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
		if x.kin != 0 {
			g.at(x.kin).heirs = x.heirs
		}
		if x.heirs != 0 {
			g.at(x.heirs).kin = x.kin
		} else {
			h.youngest = x.kin
		}
		if h.n--; h.n > 0 {
			g.index.sessions[x.request.Owner] = h
		} else {
			delete(g.index.sessions, x.request.Owner)
		}
	}
	if x.fixed != 0 {
		for k := range g.index.ranked {
			g.unrank(rank(k), x.ranks[k])
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
		g.at(i).ranks[k] = place
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

package lockstate

import (
	"github.com/lockagent/lockagent"
)

// grant is a grant that is held.
type grant struct {
	request Request
	token   lockagent.Token
	since   Instant
	fixed   Instant // when the fixed lease ends, or 0 for a kept lease
	own     Instant // while another hold keeps the fixed lease: no end of it is earlier; or 0
	claimBy Instant // when the grant is recalled if nobody has received it; 0 afterwards

	older, younger cell // its neighbours in the list of all grants
}

// cell is the number of a grant in the list of cells, from 1. 0 is none.
type cell int32

// grants are the grants that are held, in the order in which they were granted. No step costs more
// because there are many of them: a few are looked at one by one, more of them have an index.
type grants struct {
	cells []grant
	spare cell // the first cell without a grant; older leads to the next one
	index *index

	oldest, youngest cell
	n                int32 // how many there are
	exclusive        int32 // how many are exclusive
	kept             int32 // how many have a kept lease

	// unclaimed is the oldest grant that may have to be recalled. Those that are granted later are
	// recalled later.
	unclaimed cell
}

// fewGrants is how many grants are looked at one by one. It is changed by tests: their worlds have few grants.
var fewGrants = 8

func (g *grants) len() int { return int(g.n) }

func (g *grants) at(i cell) *grant { return &g.cells[i-1] }

// first is the oldest grant. There must be one.
func (g *grants) first() *grant { return g.at(g.oldest) }

// all iterates over the grants, the oldest first.
func (g *grants) all(yield func(cell, *grant) bool) {
	for i := g.oldest; i != 0; i = g.at(i).younger {
		if !yield(i, g.at(i)) {
			return
		}
	}
}

// some reports whether match accepts a grant.
func (g *grants) some(match func(*grant) bool) bool {
	for _, x := range g.all {
		if match(x) {
			return true
		}
	}
	return false
}

// backward iterates over the grants, the youngest first.
func (g *grants) backward(yield func(cell, *grant) bool) {
	for i := g.youngest; i != 0; i = g.at(i).older {
		if !yield(i, g.at(i)) {
			return
		}
	}
}

// add adds the youngest grant.
func (g *grants) add(x grant) {
	i := g.spare
	if i == 0 {
		g.cells = append(g.cells, grant{})
		i = cell(len(g.cells))
	} else {
		g.spare = g.at(i).older
	}
	x.older, x.younger = g.youngest, 0
	*g.at(i) = x
	if g.youngest != 0 {
		g.at(g.youngest).younger = i
	} else {
		g.oldest = i
	}
	g.youngest = i
	g.count(&x, 1)
	if g.unclaimed == 0 && x.claimBy != 0 {
		g.unclaimed = i
	}
	switch {
	case g.index != nil:
		g.enter(i)
	case g.len() > fewGrants:
		g.index = newIndex()
		for i := range g.all {
			g.enter(i)
		}
	}
}

func (g *grants) remove(i cell) {
	x := g.at(i)
	if g.index != nil {
		g.leave(i)
	}
	g.count(x, -1)
	g.claimed(i)
	if x.older != 0 {
		g.at(x.older).younger = x.younger
	} else {
		g.oldest = x.younger
	}
	if x.younger != 0 {
		g.at(x.younger).older = x.older
	} else {
		g.youngest = x.older
	}
	*x = grant{older: g.spare}
	g.spare = i
	if g.len() <= fewGrants/2 { // not at once: their number may go up and down
		g.index = nil
	}
	if g.n == 0 && cap(g.cells) > retainedGrants { // after a burst the room would stay for the life of the lock
		*g = grants{}
	}
}

// retainedGrants is the room for grants that a lock keeps while nobody holds it.
const retainedGrants = 16

func (g *grants) count(x *grant, by int32) {
	g.n += by
	if x.request.Mode == Exclusive {
		g.exclusive += by
	}
	if x.fixed == 0 {
		g.kept += by
	}
}

// claimed notes that a grant is not recalled any more.
func (g *grants) claimed(i cell) {
	g.at(i).claimBy = 0
	for g.unclaimed != 0 && g.at(g.unclaimed).claimBy == 0 {
		g.unclaimed = g.at(g.unclaimed).younger
	}
}

// extend moves the end of a lease, which is 0 if the lease is kept. No later end is earlier than own.
func (g *grants) extend(i cell, fixed, own Instant) {
	x := g.at(i)
	if g.index != nil {
		g.unrank(i)
	}
	g.count(x, -1)
	x.fixed, x.own = fixed, own
	g.count(x, 1)
	if g.index != nil {
		g.rank(i)
	}
}

// find is the grant of a request, or 0.
func (g *grants) find(id RequestID) cell {
	if g.index != nil {
		return g.index.requests[id]
	}
	for i, x := range g.all {
		if x.request.ID == id {
			return i
		}
	}
	return 0
}

// of counts the grants of the session of a request, or 0 if it is of none. Then its owner has made no
// other request.
func (g *grants) of(r *Request) int {
	if !r.Session {
		return 0
	}
	return g.session(r.Owner).n
}

// session tells of the grants of a session.
func (g *grants) session(o lockagent.Owner) (h holding) {
	if g.index != nil {
		return g.index.sessions[o]
	}
	for i, x := range g.all {
		if x.request.Session && x.request.Owner == o {
			h.n, h.youngest = h.n+1, i
		}
	}
	return h
}

// ofOwner iterates over the grants of an owner, the youngest first. If the owner is no session that holds
// the lock, it looks at all grants.
func (g *grants) ofOwner(o lockagent.Owner, yield func(cell) bool) {
	if g.index != nil && g.index.sessions[o].n > 0 {
		for i := g.index.sessions[o].youngest; i != 0; i = g.index.at(i).older {
			if !yield(i) {
				return
			}
		}
		return
	}
	for i, x := range g.backward {
		if x.request.Owner == o && !yield(i) {
			return
		}
	}
}

// has reports whether an owner holds the lock.
func (g *grants) has(o lockagent.Owner) (has bool) {
	g.ofOwner(o, func(cell) bool {
		has = true
		return false
	})
	return has
}

// shared reports whether all grants are shared.
func (g *grants) shared() bool { return g.exclusive == 0 }

// again returns a grant that makes r a re-entry, or nil. A shared request re-enters beside any grant of
// its session, an exclusive request only if the session holds the lock alone. All grants of a session
// have the same token.
func (g *grants) again(r *Request) *grant {
	if !r.Session || g.n == 0 || r.Mode == Exclusive && g.shared() {
		return nil
	}
	// If there is an exclusive grant, all grants are of its owner.
	if h := g.session(r.Owner); h.n > 0 {
		return g.at(h.youngest)
	}
	return nil
}

// upgrades reports whether r asks for the lock alone while its session only shares it.
func (g *grants) upgrades(r *Request) bool {
	return r.Session && r.Mode == Exclusive && g.n > 0 && g.shared() && g.session(r.Owner).n > 0
}

// top is the grant with a fixed lease that comes first in an order, or 0 if all leases are kept.
func (g *grants) top(k ordering) (top cell) {
	switch {
	case g.kept == g.n:
		return 0
	case g.index != nil:
		return g.index.heaps[k][0]
	}
	for i, x := range g.all {
		if x.fixed != 0 && (top == 0 || k.before(x, g.at(top))) {
			top = i
		}
	}
	return top
}

package lockstate

import (
	"maps"
	"slices"
)

// part is the first part that match accepts, or nil.
func (f *Fair) part(match func(*State) bool) *State {
	if i := slices.IndexFunc(f.parts, match); i >= 0 {
		return f.parts[i]
	}
	return nil
}

// partFor is the part that takes a request. If the session of the request holds the lock or waits for it, its part
// takes the request, too. Otherwise a part takes it that has nothing to do, or a new one. This part becomes the last
// one of the list, and the id of the request becomes its number. So the numbers of the parts grow in the order of the
// list. A part that is closed takes every request, and refuses it.
func (f *Fair) partFor(r *Request, m Moment) *State {
	if p := f.part(func(p *State) bool { return p.closed || p.lets(r) }); p != nil {
		return p
	}
	p := f.part(func(p *State) bool { return p.phase == free && p.requests.waiting.n == 0 })
	if p == nil {
		p = New(f.name, f.cfg)
	}
	p.part = m.Fresh
	p.contended = f.Listening() // then the first attempt asks for a place
	f.parts = append(slices.DeleteFunc(f.parts, func(q *State) bool { return q == p }), p)
	return p
}

// seat wakes the parts that sleep and have not asked for a place yet, because the lock was not
// subscribed to wake-ups before. They ask for one now. Otherwise the request that just arrives
// would overtake them. seat returns the moment for that request.
func (f *Fair) seat(m Moment, do func(*Event)) Moment {
	for _, p := range f.parts {
		if p.phase == sleeping && p.failures == 0 && !p.attempt.placed {
			f.step(p, Woken{}, m, do)
			m.Fresh = f.fresh()
		}
	}
	return m
}

// concerned are the parts that a command concerns. If there are none, it is [Fair.front], which
// gives the answer, if the command needs one.
func (f *Fair) concerned(c Command, m Moment) (parts []*State) {
	woken, ok := c.(Woken)
	first := ok && !woken.All
	for _, p := range f.parts {
		if !p.concerns(c, m) {
			continue
		}
		// A free lock is for the first place. So a wake-up is for the first part that has one, and
		// for those without.
		if first && p.attempt.queued() && slices.ContainsFunc(parts, func(q *State) bool { return q.attempt.queued() }) {
			continue
		}
		parts = append(parts, p)
	}
	if len(parts) == 0 {
		parts = append(parts, f.front())
	}
	return parts
}

// front is the part with the oldest grant, or any part if nobody holds the lock.
func (f *Fair) front() *State {
	front := f.parts[0]
	for _, p := range f.parts[1:] {
		first, oldest := front.requests.oldest(), p.requests.oldest()
		if oldest != nil && (first == nil || oldest.since < first.since) {
			front = p
		}
	}
	return front
}

// parts divides the snapshot of a [Fair] into those of its parts, in their order.
func (n Snapshot) parts() (parts []Snapshot) {
	of := make(map[uint64]*Snapshot)
	part := func(number uint64) *Snapshot {
		if of[number] == nil {
			of[number] = new(Snapshot)
		}
		return of[number]
	}
	for _, t := range n.Tenures {
		p := part(t.Part)
		p.Tenures = append(p.Tenures, t)
	}
	for _, r := range n.Requests {
		p := part(r.Part)
		p.Requests = append(p.Requests, r)
	}
	for _, number := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, *of[number])
	}
	return parts
}

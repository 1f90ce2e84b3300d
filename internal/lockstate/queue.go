package lockstate

import (
	"iter"
	"slices"

	"github.com/lockagent/lockagent"
)

// queue holds the requests that wait, in the order of their arrival, which is also the order
// of their ids. A request that leaves the middle leaves a hole. Holes go when they reach an
// end of the queue, or when more than half of it is holes. A long queue makes
// push, head and last no slower, on average, and find only a little. A removal also moves the ids of
// younger tries, and those of younger requests of the same session. Only three methods look at every
// request: all, and for an owner without a session also ofOwner and has.
type queue struct {
	items []waiter // sorted by id, also with holes
	first int32    // the index of the head; everything before is a hole
	live  int32    // the number of requests, without holes

	tries    ids                     // of the requests that do not wait for the lock
	sessions map[lockagent.Owner]ids // without owners that have none
}

// ids are the ids of some requests in the queue, in order. The first one needs no memory of its own.
type ids struct {
	first RequestID // 0 if there are none
	more  []RequestID
}

func (l *ids) len() int {
	if l.first == 0 {
		return 0
	}
	return 1 + len(l.more)
}

// note adds an id, which is the last one, or removes one.
func (l *ids) note(id RequestID, add bool) {
	switch {
	case add && l.first == 0:
		l.first = id
	case add:
		l.more = append(l.more, id)
	case id != l.first:
		if i, ok := slices.BinarySearch(l.more, id); ok {
			l.more = slices.Delete(l.more, i, i+1)
		}
	case len(l.more) == 0:
		*l = ids{}
	default:
		l.first, l.more = l.more[0], l.more[1:]
	}
}

func (l *ids) all(yield func(RequestID) bool) {
	if l.first == 0 || !yield(l.first) {
		return
	}
	for _, id := range l.more {
		if !yield(id) {
			return
		}
	}
}

// upto iterates over the ids up to last.
func (l *ids) upto(last RequestID) iter.Seq[RequestID] {
	return func(yield func(RequestID) bool) {
		for id := range l.all {
			if id > last || !yield(id) {
				return
			}
		}
	}
}

// waiter is a request in the queue, or a hole.
type waiter struct {
	Request
	gone   bool // a hole
	queued bool // the Queued event told that it could not be granted at once
}

func (q *queue) len() int { return int(q.live) }

func (q *queue) push(r Request) {
	q.items = append(q.items, waiter{Request: r})
	q.count(&r, true)
}

// head is the request that has waited longest, or nil.
func (q *queue) head() *waiter {
	if q.live == 0 {
		return nil
	}
	return &q.items[q.first]
}

// last is the id of the youngest request, or 0.
func (q *queue) last() RequestID {
	if q.live == 0 {
		return 0
	}
	return q.items[len(q.items)-1].ID
}

// find returns the waiting request with that id, or nil.
func (q *queue) find(id RequestID) *waiter {
	live := q.items[q.first:]
	if len(live) > 0 && live[0].ID == id { // most often it is the head
		return &live[0]
	}
	i, ok := slices.BinarySearchFunc(live, id, func(w waiter, id RequestID) int {
		switch {
		case w.ID < id:
			return -1
		case w.ID > id:
			return 1
		}
		return 0
	})
	if !ok || live[i].gone {
		return nil
	}
	return &live[i]
}

// all iterates over the waiting requests.
func (q *queue) all(yield func(*waiter) bool) {
	for i := int(q.first); i < len(q.items); i++ {
		if w := &q.items[i]; !w.gone && !yield(w) {
			return
		}
	}
}

// waits reports whether a request of the owner's session waits.
func (q *queue) waits(o lockagent.Owner) bool { return len(q.sessions) > 0 && q.sessions[o].first != 0 }

// ofOwner iterates over the requests of an owner. If the owner is no session that waits, it looks at all requests.
func (q *queue) ofOwner(o lockagent.Owner, yield func(*waiter) bool) {
	if of := q.sessions[o]; of.first != 0 {
		for id := range of.all {
			if !yield(q.find(id)) {
				return
			}
		}
		return
	}
	for w := range q.all {
		if w.Owner == o && !yield(w) {
			return
		}
	}
}

// has reports whether a request of the owner waits. It looks at all requests, unless the owner is a session that waits.
func (q *queue) has(o lockagent.Owner) (has bool) {
	q.ofOwner(o, func(*waiter) bool {
		has = true
		return false
	})
	return has
}

// ofSession is the oldest request of the owner's session that match accepts, or nil.
func (q *queue) ofSession(o lockagent.Owner, match func(*Request) bool) *waiter {
	of := q.sessions[o]
	for id := range of.all {
		if w := q.find(id); match(&w.Request) {
			return w
		}
	}
	return nil
}

func (q *queue) remove(id RequestID) {
	w := q.find(id)
	if w == nil {
		return
	}
	q.count(&w.Request, false)
	*w = waiter{Request: Request{ID: id}, gone: true}
	for int(q.first) < len(q.items) && q.items[q.first].gone {
		q.first++
	}
	for int(q.first) < len(q.items) && q.items[len(q.items)-1].gone {
		q.items = q.items[:len(q.items)-1]
	}
	switch {
	case q.live == 0:
		if cap(q.items) > 64 { // after a burst the room would stay for the life of the lock
			*q = queue{}
		} else {
			*q = queue{items: q.items[:0], sessions: q.sessions}
		}
	case len(q.items) > 32 && q.len() < len(q.items)/2:
		q.items = slices.DeleteFunc(q.items, func(w waiter) bool { return w.gone })
		q.first = 0
		if cap(q.items) > max(64, 4*q.len()) {
			q.items = slices.Clone(q.items)
		}
	}
}

// trim frees the memory of an empty queue.
func (q *queue) trim() {
	if q.live == 0 {
		*q = queue{}
	}
}

// count takes a request into account that came, or one that goes.
func (q *queue) count(r *Request, comes bool) {
	if comes {
		q.live++
	} else {
		q.live--
	}
	if r.Try {
		q.tries.note(r.ID, comes)
	}
	if r.Session {
		if q.sessions == nil {
			q.sessions = make(map[lockagent.Owner]ids)
		}
		of := q.sessions[r.Owner]
		if of.note(r.ID, comes); of.len() > 0 {
			q.sessions[r.Owner] = of
		} else {
			delete(q.sessions, r.Owner)
		}
	}
}

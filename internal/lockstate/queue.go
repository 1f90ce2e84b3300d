package lockstate

import (
	"slices"

	"github.com/lockagent/lockagent"
)

// queue holds the requests that wait, in the order of their arrival, which is also the order
// of their ids. A request that leaves the middle leaves a hole. Holes go when they reach an
// end of the queue, or when more than half of it is holes. So the cost of push, find and
// remove grows no faster than the logarithm of the length, on average. Only scans cost more.
type queue struct {
	items []waiter // sorted by id, also with holes
	first int      // the index of the head; everything before is a hole
	live  int      // the number of requests, without holes

	// tries and sessions count the requests of their kind. Scans look for them only if there
	// are any.
	tries    int
	sessions map[lockagent.Owner]int // without owners that have none
}

// waiter is a request in the queue, or a hole.
type waiter struct {
	Request
	gone   bool // a hole
	queued bool // the Queued event told that it could not be granted at once
}

func (q *queue) len() int { return q.live }

func (q *queue) push(r Request) {
	q.items = append(q.items, waiter{Request: r})
	q.count(&r, 1)
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

// search returns the first waiting request that match accepts, or nil.
func (q *queue) search(match func(*Request) bool) *waiter {
	for i := q.first; i < len(q.items); i++ {
		if w := &q.items[i]; !w.gone && match(&w.Request) {
			return w
		}
	}
	return nil
}

// ofSession is the oldest request of the owner's session that match accepts, or nil.
func (q *queue) ofSession(o lockagent.Owner, match func(*Request) bool) *waiter {
	if q.sessions[o] == 0 {
		return nil
	}
	return q.search(func(r *Request) bool { return r.Session && r.Owner == o && match(r) })
}

// firstTry is the oldest request that does not wait, or nil.
func (q *queue) firstTry() *waiter {
	if q.tries == 0 {
		return nil
	}
	return q.search(func(r *Request) bool { return r.Try })
}

func (q *queue) remove(id RequestID) {
	w := q.find(id)
	if w == nil {
		return
	}
	q.count(&w.Request, -1)
	*w = waiter{Request: Request{ID: id}, gone: true}
	for q.first < len(q.items) && q.items[q.first].gone {
		q.first++
	}
	for q.first < len(q.items) && q.items[len(q.items)-1].gone {
		q.items = q.items[:len(q.items)-1]
	}
	switch {
	case q.live == 0:
		if cap(q.items) > 64 { // after a burst the room would stay for the life of the lock
			*q = queue{}
		} else {
			*q = queue{items: q.items[:0], sessions: q.sessions}
		}
	case len(q.items) > 32 && q.live < len(q.items)/2:
		q.items = slices.DeleteFunc(q.items, func(w waiter) bool { return w.gone })
		q.first = 0
		if cap(q.items) > max(64, 4*q.live) {
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

func (q *queue) count(r *Request, by int) {
	q.live += by
	if r.Try {
		q.tries += by
	}
	if r.Session {
		if q.sessions == nil {
			q.sessions = make(map[lockagent.Owner]int)
		}
		if q.sessions[r.Owner] += by; q.sessions[r.Owner] == 0 {
			delete(q.sessions, r.Owner)
		}
	}
}

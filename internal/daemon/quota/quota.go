// Package quota counts what each user of the daemon has at once, such as connections. One user cannot have all of it,
// and some is kept for those who look after the daemon: they have to find out who has the rest.
package quota

import (
	"math"
	"sync"
)

// Nobody is the user of those whose user the system does not know: they are counted together.
const Nobody = math.MaxUint32

// Bounds are those of a [Quota]. All fields are required.
type Bounds struct {
	// Each is how many a user may have. 0 is no bound.
	Each func() int
	// All is how many all users may have. 0 is no bound.
	All int
	// Reserve is how many more a user may have of whom Privileged says so, of both.
	Reserve    int
	Privileged func(uid uint32) bool
	// Refused is told of each one that is too many: its user, and the bound. all says that it is the one of all users.
	Refused func(uid uint32, all bool, bound int)
}

// Quota counts what each user has. Make it with [New]. It is safe for concurrent use.
type Quota struct {
	bounds Bounds

	mu   sync.Mutex // guards what follows
	open map[uint32]int
	all  int
}

// New returns a quota of which nobody has anything.
func New(b Bounds) *Quota { return &Quota{bounds: b, open: make(map[uint32]int)} }

// Take counts one more of a user, until leave is called. Further calls of leave do nothing. If ok is false, it is one
// too many, and does not count.
func (q *Quota) Take(uid uint32) (leave func(), ok bool) {
	each, all := q.bounds.Each(), q.bounds.All
	reserve := 0
	if q.bounds.Privileged(uid) {
		reserve = q.bounds.Reserve
	}
	q.mu.Lock()
	tooMany := each > 0 && q.open[uid] >= each+reserve
	ofAll := all > 0 && q.all >= all+reserve
	if !tooMany && !ofAll {
		q.open[uid]++
		q.all++
	}
	q.mu.Unlock()
	switch {
	case tooMany:
		q.bounds.Refused(uid, false, each+reserve)
		return nil, false
	case ofAll:
		q.bounds.Refused(uid, true, all+reserve)
		return nil, false
	}
	return sync.OnceFunc(func() { q.leave(uid) }), true
}

func (q *Quota) leave(uid uint32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.all--
	if q.open[uid]--; q.open[uid] == 0 {
		delete(q.open, uid)
	}
}

// Package quota counts what each user of the daemon has at once, such as connections and claims. It is the one place
// that counts: the socket, the API, the claims, the live page and the store in memory ask it. One user cannot have all
// that there is. A part is kept for those who look after the daemon, so that they can find out who has the rest.
package quota

import (
	"math"
	"sync"

	"github.com/lockagent/lockagent/internal/daemon/refusal"
)

// Nobody is the user of those whose user the system does not know: they are counted together.
const Nobody = math.MaxUint32

// Kind is something of which there may be only so many at once.
type Kind int

// The kinds.
const (
	Connections        Kind = iota // to the socket
	PageConnections                // to the live page
	MetricsConnections             // to the metrics
	Requests                       // from the header of a request until the end of its answer
	Lists                          // requests for lists of locks
	Streams                        // requests that go on for as long as their clients like
	Watches                        // streams that only watch
	Pages                          // streams of the live page
	Claims                         // granted or not
	Waiters                        // claims that wait
	Processes                      // claims that end with a process
	Numbers                        // semaphores and latches in the memory of the daemon
	kinds
)

// texts say of which kind a user has too many, and all users together.
var texts = [kinds]struct{ each, all string }{
	Connections:        {"connections", refusal.Connections},
	PageConnections:    {"connections to the live page", refusal.PageConnections},
	MetricsConnections: {"connections to the metrics", refusal.MetricsConnections},
	Requests:           {each: "requests"},
	Lists:              {each: "lists of locks"},
	Streams:            {each: "streams"},
	Watches:            {each: "streams that only watch"},
	Pages:              {"live pages", refusal.Pages},
	Claims:             {each: "claims"},
	Waiters:            {each: "waiting claims"},
	Processes:          {"claims that end with processes", refusal.Processes},
	Numbers:            {all: refusal.Numbers},
}

// Bound is how many there may be of a kind. 0 is no bound.
type Bound struct {
	Each int // of each user
	All  int // of all users together
	// Reserve is how many more those may have who look after the daemon, of both.
	Reserve int
}

// Config says how many there may be. The zero Config has no bounds.
type Config struct {
	// Bound is the table of the bounds. It must not block, and must not call this package.
	Bound func(Kind) Bound
	// Privileged reports whether a user looks after the daemon. It is required with Bound.
	Privileged func(uid uint32) bool
}

// Bureau counts. Make it with [New]. It is safe for concurrent use. It calls nobody but the functions of its [Config],
// so others may call it while they hold a mutex.
type Bureau struct {
	cfg Config

	mu    sync.Mutex // guards what follows
	users map[uint32]*counts
	all   counts
}

// counts is how many there are of each kind.
type counts [kinds]int

// New returns a bureau that has counted nothing.
func New(cfg Config) *Bureau { return &Bureau{cfg: cfg, users: make(map[uint32]*counts)} }

// Take counts one more of each of these kinds for a user. If one of them is too many, it counts none, and the error is
// a [*refusal.QuotaError].
func (b *Bureau) Take(uid uint32, of ...Kind) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, kind := range of {
		if err := b.tooMany(uid, kind); err != nil {
			return err
		}
	}
	b.add(uid, of)
	return nil
}

// Add is Take beyond all bounds: for what is there already, and for what takes the place of another.
func (b *Bureau) Add(uid uint32, of ...Kind) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(uid, of)
}

// Leave counts one less of each of these kinds. A user leaves what that user has taken, and leaves it once.
func (b *Bureau) Leave(uid uint32, of ...Kind) {
	b.mu.Lock()
	defer b.mu.Unlock()
	user := b.users[uid]
	for _, kind := range of {
		user[kind]--
		b.all[kind]--
	}
	if *user == (counts{}) {
		delete(b.users, uid)
	}
}

// Total is how many all users have of a kind.
func (b *Bureau) Total(kind Kind) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all[kind]
}

// tooMany is the error of one more. The mutex must be held.
func (b *Bureau) tooMany(uid uint32, kind Kind) error {
	if b.cfg.Bound == nil {
		return nil
	}
	bound := b.cfg.Bound(kind)
	reserve := 0
	if b.cfg.Privileged(uid) {
		reserve = bound.Reserve
	}
	has := 0
	if user := b.users[uid]; user != nil {
		has = user[kind]
	}
	switch {
	case bound.Each > 0 && has >= bound.Each+reserve:
		return &refusal.QuotaError{What: texts[kind].each, Limit: bound.Each + reserve}
	case bound.All > 0 && b.all[kind] >= bound.All+reserve:
		return &refusal.QuotaError{What: texts[kind].all, Limit: bound.All + reserve}
	}
	return nil
}

// add counts. The mutex must be held.
func (b *Bureau) add(uid uint32, of []Kind) {
	user := b.users[uid]
	if user == nil {
		user = &counts{}
		b.users[uid] = user
	}
	for _, kind := range of {
		user[kind]++
		b.all[kind]++
	}
}

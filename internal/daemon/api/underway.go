package api

import (
	"sync"

	"github.com/lockagent/lockagent/internal/daemon/refusal"
)

// underWay counts what each user has under way, from the header of a request on: the rest of it may never come, and its
// answer may never be read.
type underWay struct {
	mu    sync.Mutex
	count map[ofUser]int // guarded by mu
}

type ofUser struct {
	uid  uint32
	what string
}

// begin counts one more. Call end when it is over. most is 0 for no bound. The error is a [*refusal.QuotaError] if it
// is one too many.
func (u *underWay) begin(uid uint32, what string, most int) (end func(), err error) {
	key := ofUser{uid, what}
	u.mu.Lock()
	defer u.mu.Unlock()
	if most > 0 && u.count[key] >= most {
		return nil, &refusal.QuotaError{What: what, Limit: most}
	}
	u.count[key]++
	return sync.OnceFunc(func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.count[key]--; u.count[key] == 0 {
			delete(u.count, key)
		}
	}), nil
}

package channelapi

import "github.com/lockagent/lockagent/actor"

// NoReentry refuses a request with [ErrReentry], at once, if the session holds the lock already or waits
// for it. So work that must not run inside of itself finds out, and no second release is needed. It is
// for handles of a [Session], and looks at all requests of the session, whatever handle they came from. To
// the store the lock is one as without this option: as a non-reentrant lock of Redisson.
func NoReentry() Option {
	return option(func(r *actor.Request) error {
		r.NoReentry = true
		return nil
	})
}

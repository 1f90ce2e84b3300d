package redisstore

import (
	"errors"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/script"
)

// fenced returns the family of fenced locks.
func (s *Store) fenced() *family {
	const kind = lockagent.FencedLock
	room := s.room
	f := s.plain()
	f.beside, f.inspects = true, inspects(room, kind)

	f.acquires.write = room.AcquireFenced
	f.acquires.refused = func(req *lockagent.AcquireRequest, err error) error { return completed(err, req.Name, kind) }
	// The tokens may be ahead of the clock.
	f.acquires.time = func(r *lockagent.AcquireReply) (lockagent.StoreTime, lockagent.Token) {
		return r.At, min(r.Token, lockagent.Token(r.At))
	}

	f.releases.write = room.ReleaseFenced

	f.renewals.write = func(c *script.Call, reqs []lockagent.RenewRequest, _ script.Past) { room.RenewFenced(c, reqs) }
	return f
}

// completed is an error about a lock, which so far only tells as which kind the name is in use, or how long a grace
// period lasts.
func completed(err error, name lockagent.Name, kind lockagent.LockKind) error {
	if used, _ := errors.AsType[*lockagent.KindError](err); used != nil && used.Name == "" {
		return &lockagent.KindError{Name: name, Kind: kind, Used: used.Used}
	}
	if grace, ok := errors.AsType[*script.GraceError](err); ok {
		return &lockagent.GraceError{Name: name, Left: grace.Left}
	}
	return err
}

package quorum

import (
	"context"

	"github.com/lockagent/lockagent"
)

// Permits implements [lockagent.Store]: a quorum has no semaphores.
func (s *Store) Permits(_ context.Context, req lockagent.PermitsRequest, done func(lockagent.PermitsReply, error)) {
	done(lockagent.PermitsReply{}, s.check(req.Kind, req.Check()))
}

package quorum

import (
	"context"

	"github.com/lockagent/lockagent"
)

// Latch implements [lockagent.Store]: a quorum has no latches.
func (s *Store) Latch(_ context.Context, req lockagent.LatchRequest, done func(lockagent.LatchReply, error)) {
	done(lockagent.LatchReply{}, s.check(lockagent.Latch, req.Check()))
}

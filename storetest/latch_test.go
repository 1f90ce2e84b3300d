package storetest

import (
	"context"

	"github.com/lockagent/lockagent"
)

func (s *spoilt) Latch(_ context.Context, _ lockagent.LatchRequest, done func(lockagent.LatchReply, error)) {
	done(lockagent.LatchReply{}, lockagent.ErrBadOption)
}

package redisstore

import (
	"context"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/script"
)

// spin returns the family of spin locks.
func (s *Store) spin() *family {
	room := s.room
	f := s.plain()
	f.channel = nil
	f.acquire = func(ctx context.Context, f *family, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error)) {
		req.Queue = false
		s.together(ctx, f, req, done)
	}
	f.releases.write, f.releases.read, f.releases.aside = room.ReleaseSpin, script.Single.ReadReleased, nil
	f.releases.alone = func(c *script.Call, req *script.ReleaseRequest, _ script.Past) { room.ReleaseSpinAlone(c, req) }
	return f
}

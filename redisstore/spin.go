package redisstore

import (
	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/script"
)

// spin returns the family of spin locks.
func (s *Store) spin() *family {
	room := s.room
	f := s.plain()
	f.channel, f.inspects = nil, inspects(room, lockagent.SpinLock)
	f.acquires.write, f.acquires.alone = room.AcquireSpin, room.AcquireSpinAlone
	f.releases.write, f.releases.read, f.releases.aside = room.ReleaseSpin, script.Single.ReadReleased, nil
	f.releases.alone = func(c *script.Call, req *script.ReleaseRequest, _ script.Past) { room.ReleaseSpinAlone(c, req) }
	return f
}

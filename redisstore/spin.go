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
	f.acquires.write = room.AcquireSpin
	f.releases.write, f.releases.read = room.ReleaseSpin, script.Single.ReadReleased
	return f
}

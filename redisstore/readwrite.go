package redisstore

import (
	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/script"
)

// readWrite returns the family of read/write locks. It differs from that of plain locks in its scripts.
func (s *Store) readWrite() *family {
	room := s.room
	f := s.plain()
	f.beside = true
	f.inspects, f.channel = room.ReadWriteInspect, script.ReadWriteChannel
	f.acquires.write, f.releases.write = room.ReadWriteAcquire, room.ReadWriteRelease
	f.breaks.write = breaks(room.ReadWriteBreak)
	f.renewals.write = func(c *script.Call, reqs []lockagent.RenewRequest, _ script.Past) {
		room.ReadWriteRenew(c, reqs)
	}
	return f
}

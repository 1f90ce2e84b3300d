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
	f.breaks, f.inspects, f.channel = room.ReadWriteBreak, room.ReadWriteInspect, script.ReadWriteChannel
	f.acquires.write, f.acquires.alone = room.ReadWriteAcquire, room.ReadWriteAcquireAlone
	f.releases.write = room.ReadWriteRelease
	f.releases.alone = func(c *script.Call, req *script.ReleaseRequest, _ script.Past) { room.ReadWriteReleaseAlone(c, req) }
	if room == script.Sharded {
		f.releases.aside = s.wakingAtOwner(room.ReadWriteWake)
	}
	f.renewals.write = func(c *script.Call, reqs []lockagent.RenewRequest, _ script.Past) { room.ReadWriteRenew(c, reqs) }
	f.renewals.alone = func(c *script.Call, req *lockagent.RenewRequest, _ script.Past) { room.ReadWriteRenewAlone(c, req) }
	return f
}

//go:build linux

package daemon

import (
	"net"
	"os"

	"github.com/lockagent/lockagent/internal/daemon/access"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	"github.com/lockagent/lockagent/internal/daemon/socket"
)

// reserve is how many connections those who look after the daemon have beyond the bounds, so that they can find out who has the others.
const reserve = 16

// bound bounds the connections of clients: those of each user by the limits, and those of all by what there is room for.
func bound(l net.Listener, a *access.Access, room int) net.Listener {
	self := uint32(os.Geteuid())
	return socket.Bound(l, socket.Bounds{
		Each: func() int { return each(a.Limits().Connections, room) }, All: room,
		Reserve: reserve, Privileged: func(uid uint32) bool { return uid == 0 || uid == self },
		Refused: func(uid uint32, ofAll bool, bound int) {
			what := "connections"
			if ofAll {
				what = refusal.Connections
			}
			_ = a.Refused(uid, &refusal.QuotaError{What: what, Limit: bound}) // it counts, and is told; the client learns of the end
		},
	})
}

// each is how many connections a user may have: an eighth of the room is left for others.
func each(limit, room int) int {
	most := max(room-room/8, 1)
	if limit == 0 {
		return most
	}
	return min(limit, most)
}

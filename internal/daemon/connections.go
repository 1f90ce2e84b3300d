//go:build linux

package daemon

import (
	"net"
	"os"

	"github.com/lockagent/lockagent/internal/daemon/access"
	"github.com/lockagent/lockagent/internal/daemon/quota"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	"github.com/lockagent/lockagent/internal/daemon/socket"
	"github.com/lockagent/lockagent/internal/daemon/tcppeer"
)

// reserve is how many connections those who look after the daemon have beyond the bounds, so that they can find out
// who has the others. They have as many more live pages.
const reserve = 16

// looksAfter reports whether a user looks after the daemon.
func looksAfter(uid uint32) bool { return uid == 0 || uid == uint32(os.Geteuid()) }

// bound bounds the connections of clients: those of each user by the limits, and those of all by what there is room
// for.
func bound(l net.Listener, a *access.Access, room int) net.Listener {
	return socket.Bound(l, socket.User, quota.New(quota.Bounds{
		Each: func() int { return each(a.Limits().Connections, room) }, All: room,
		Reserve: reserve, Privileged: looksAfter,
		Refused: refusals(a, "connections", refusal.Connections),
	}))
}

// refusals has refusals counted and told; the client learns of the end.
func refusals(a *access.Access, what, ofAll string) func(uint32, bool, int) {
	return func(uid uint32, all bool, bound int) {
		what := what
		if all {
			what = ofAll
		}
		_ = a.Refused(uid, &refusal.QuotaError{What: what, Limit: bound})
	}
}

// each is how many connections a user may have: an eighth of the room is left for others.
func each(limit, room int) int {
	most := max(room-room/8, 1)
	if limit == 0 {
		return most
	}
	return min(limit, most)
}

// few are the bounds of something of which all users may have only a few. A user may have half of them.
func few(all int, refused func(uid uint32, all bool, bound int)) *quota.Quota {
	return quota.New(quota.Bounds{
		Each: func() int { return all / 2 }, All: all, Reserve: reserve, Privileged: looksAfter, Refused: refused,
	})
}

// FewConnections bounds the connections of the server of metrics. Who connects is found out as for the live page.
// Refused is told of each connection that is too many: its user, and the bound. all says that it is the one of all
// users.
func FewConnections(l net.Listener, all int, refused func(uid uint32, all bool, bound int)) net.Listener {
	return boundTCP(l, all, refused)
}

// RefusedMetrics counts and tells what [FewConnections] refuses, as the refusals of the live page.
func RefusedMetrics(a *access.Access) func(uid uint32, all bool, bound int) {
	return refusals(a, "connections to the metrics", refusal.MetricsConnections)
}

// boundTCP bounds the connections of a listener of TCP. Whoever connects from elsewhere is of no user of this host,
// and all of them are counted as one.
func boundTCP(l net.Listener, all int, refused func(uid uint32, all bool, bound int)) net.Listener {
	return socket.Bound(l, tcppeer.User, few(all, refused))
}

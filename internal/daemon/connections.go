//go:build linux

package daemon

import (
	"net"

	"github.com/lockagent/lockagent/internal/daemon/access"
	"github.com/lockagent/lockagent/internal/daemon/quota"
	"github.com/lockagent/lockagent/internal/daemon/socket"
)

// bound bounds the connections of a listener, which are of a kind. user tells who has made a connection. A refusal is
// counted and told, and the client learns of the end.
func bound(l net.Listener, user func(net.Conn) (uint32, error), a *access.Access, kind quota.Kind) net.Listener {
	return socket.Bound(l, user, func(uid uint32) (leave func(), err error) { return a.Hold(uid, kind) })
}

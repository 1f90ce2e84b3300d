package telemetry

import (
	"net"
	"os"
	"time"

	"github.com/lockagent/lockagent/internal/daemon/access"
	"github.com/lockagent/lockagent/internal/daemon/quota"
	"github.com/lockagent/lockagent/internal/daemon/socket"
	"github.com/lockagent/lockagent/internal/daemon/tcppeer"
)

// fewConnections bounds the connections of the server of metrics: its descriptors are those that the rest of the
// process needs. quotas are those of a daemon. A process that is none has its own.
func fewConnections(l net.Listener, quotas *access.Access) net.Listener {
	if quotas == nil {
		quotas, _ = access.New(access.Config{ // without rules there is nothing wrong
			Self: uint32(os.Geteuid()), Now: time.Now, Refused: func(uint32, error, uint64) {},
		})
	}
	// Who connects is found out as for the live page: whoever connects from elsewhere is of no user of this host, and
	// all of them are counted as one.
	return socket.Bound(l, tcppeer.User, func(uid uint32) (leave func(), err error) {
		return quotas.Hold(uid, quota.MetricsConnections)
	})
}

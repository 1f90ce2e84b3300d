package main

import (
	"net"
	"os"
	"time"

	"github.com/lockagent/lockagent/internal/daemon"
	"github.com/lockagent/lockagent/internal/daemon/access"
)

// fewConnections bounds the connections of the server of metrics: its descriptors are those that the rest of the process
// needs. quotas are those of a daemon. A process that is none has its own.
func fewConnections(l net.Listener, quotas *access.Access) net.Listener {
	if quotas == nil {
		quotas, _ = access.New(access.Config{ // without rules there is nothing wrong
			Self: uint32(os.Geteuid()), Now: time.Now, Refused: func(uint32, error, uint64) {},
		})
	}
	return daemon.BoundMetrics(l, quotas)
}

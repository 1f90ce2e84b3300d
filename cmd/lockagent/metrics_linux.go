package main

import (
	"net"

	"github.com/lockagent/lockagent/internal/daemon"
)

// fewConnections bounds the connections of the server of metrics. refused, which may be nil, is told of those that are
// too many.
func fewConnections(l net.Listener, refused refusedFunc) net.Listener {
	if refused == nil {
		refused = func(uint32, bool, int) {}
	}
	return daemon.FewConnections(l, maxMetricsConns, refused)
}

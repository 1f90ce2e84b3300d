package main

import (
	"net"

	"github.com/lockagent/lockagent/internal/daemon"
)

// fewConnections bounds the connections of the server of metrics.
func fewConnections(l net.Listener) net.Listener { return daemon.FewConnections(l, maxMetricsConns) }

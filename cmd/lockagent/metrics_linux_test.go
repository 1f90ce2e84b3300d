package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/lockagent/lockagent/internal/daemon/access"
)

// The connections to the metrics are bounded, and each user has a part of them: the rest of the process needs
// descriptors as well.
func TestMetricsHaveFewConnections(t *testing.T) {
	d := serving(t, socketPath(t), "--metrics", "127.0.0.1:0")
	address := strings.TrimSuffix(strings.TrimPrefix(metricsOf(t, d), "http://"), "/metrics")
	// ask asks on a connection of its own, which it leaves open, and reports whether there is an answer.
	ask := func() (net.Conn, bool) {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := fmt.Fprint(conn, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			return conn, false
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		return conn, err == nil && resp.StatusCode == http.StatusOK
	}
	const most = 32 + access.Reserve // as those have who look after the daemon
	for i := range most {
		if _, ok := ask(); !ok {
			t.Fatalf("connection %d has no answer", i)
		}
	}
	if _, ok := ask(); ok {
		t.Error("there is no bound")
	}
	d.stderr.await(t, "that a connection was refused", says("48 connections to the metrics"))
}

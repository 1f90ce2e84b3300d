//go:build linux

package daemon

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/daemon/access"
	"github.com/lockagent/lockagent/internal/machinetest"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/webui"
)

// servePage serves the page of a daemon on a listener.
func (r *running) servePage(t *testing.T, listener net.Listener) {
	t.Helper()
	log, err := natslog.OpenReader(natslog.ReaderConfig{
		Connection: natslog.Connection{InProcess: natstest.Start(t, natsserver.Config{})},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	r.ServePage(PageConfig{
		Listener: listener, Log: log, StoreName: "memory", Parts: func() []webui.Part { return nil },
		AllowBreak: func() bool { return true },
	})
}

func listenFor(t *testing.T, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// pageOf returns the status and the text of a page.
func pageOf(t *testing.T, network, address, path string) (int, string) {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Get("http://localhost" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestPageSaysThatTheDaemonDrains(t *testing.T) {
	r := run(t)
	listener := listenFor(t, "tcp", "127.0.0.1:0")
	r.servePage(t, listener)
	status, text := pageOf(t, "tcp", listener.Addr().String(), "/")
	if status != http.StatusOK || !strings.Contains(text, "answers") || strings.Contains(text, "ends soon") {
		t.Errorf("%d: %s", status, text)
	}
	r.book.Drain(0)
	if _, text = pageOf(t, "tcp", listener.Addr().String(), "/"); !strings.Contains(text, "answers") ||
		!strings.Contains(text, "ends soon") {
		t.Error(text)
	}
}

// Nobody is behind a connection that is not of TCP within this host.
func TestPageIsNotForStrangers(t *testing.T) {
	r := run(t)
	path := filepath.Join(filepath.Dir(r.path), "page.sock")
	r.servePage(t, listenFor(t, "unix", path))
	claim := r.client(t).acquire(t, &lockagentv1.AcquireRequest{Name: "door"})
	claim.granted()
	for _, page := range []string{
		"/", "/locks", "/lock?name=door", "/lock.json?name=door", "/events", "/live/", "/live/events",
	} {
		status, text := pageOf(t, "unix", path, page)
		if status != http.StatusForbidden || !strings.Contains(text, "ssh -L") || strings.Contains(text, ">door<") {
			t.Errorf("%s: %d: %s", page, status, text)
		}
	}
}

// dialAs connects as a user: a socket is of the user whose thread makes it.
func dialAs(t *testing.T, uid int, address string) net.Conn {
	t.Helper()
	connected := make(chan error)
	var conn net.Conn
	go func() {
		runtime.LockOSThread() // which ends with this goroutine
		err := unix.Setfsuid(uid)
		if err == nil {
			conn, err = net.Dial("tcp", address)
		}
		connected <- err
	}()
	if err := <-connected; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// One user, or another, has as many connections and live pages as the daemon lets users have. Those who look after it
// still get in.
func TestPageHasAReserve(t *testing.T) {
	machinetest.NeedsRoot(t)
	const greedy, greedier, other = 54321, 54322, 54323 // nobody else runs a process as one of them
	const pages, connections = 32, 128                  // of a user; all have twice as many
	everything, err := access.ParsePattern("**")
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, func(cfg *Config) {
		cfg.Access, cfg.ReadTime = withLimits(t, access.Limits{}), time.Hour // nobody is closed because of silence
		if err := cfg.Access.Replace([]access.Rule{{Match: everything, Allow: access.Look}}, access.Limits{}); err != nil {
			t.Fatal(err)
		}
	})
	listener := listenFor(t, "tcp", "127.0.0.1:0")
	r.servePage(t, listener)
	address := listener.Addr().String()
	// ask asks for a page, and returns the status, or 0 if the connection was closed.
	ask := func(uid int, path string) int {
		conn := dialAs(t, uid, address)
		if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path); err != nil {
			return 0
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return 0
		}
		return resp.StatusCode
	}
	for _, uid := range []int{greedy, greedier} {
		for i := range pages {
			if status := ask(uid, "/live/locks"); status != http.StatusOK {
				t.Fatalf("stream %d of user %d: %d", i, uid, status)
			}
		}
	}
	for uid, want := range map[int]int{
		greedy: http.StatusServiceUnavailable, other: http.StatusServiceUnavailable, 0: http.StatusOK,
	} {
		if status := ask(uid, "/live/locks"); status != want {
			t.Errorf("a stream of user %d: %d, want %d", uid, status, want)
		}
	}
	for range connections { // some are refused
		dialAs(t, greedy, address)
	}
	for uid, want := range map[int]int{greedy: 0, other: http.StatusOK} {
		if status := ask(uid, "/locks"); status != want {
			t.Errorf("beside a user with many connections, user %d: %d, want %d", uid, status, want)
		}
	}
	for range connections {
		dialAs(t, greedier, address)
	}
	for uid, want := range map[int]int{other: 0, 0: http.StatusOK} {
		if status := ask(uid, "/locks"); status != want {
			t.Errorf("when others have all connections, user %d: %d, want %d", uid, status, want)
		}
	}
}

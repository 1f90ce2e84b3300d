//go:build linux

package daemon

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/webui"
)

// servePage serves the page of a daemon on a listener.
func (r *running) servePage(t *testing.T, listener net.Listener) {
	t.Helper()
	log, err := events.OpenReader(events.ReaderConfig{Connection: events.Connection{InProcess: natstest.Start(t, natsserver.Config{})}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	r.ServePage(PageConfig{
		Listener: listener, Log: log, StoreName: "memory", Parts: func() []webui.Part { return nil }, AllowBreak: func() bool { return true },
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
	if _, text = pageOf(t, "tcp", listener.Addr().String(), "/"); !strings.Contains(text, "answers") || !strings.Contains(text, "ends soon") {
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
	for _, page := range []string{"/", "/locks", "/lock?name=door", "/lock.json?name=door", "/events", "/live/", "/live/events"} {
		status, text := pageOf(t, "unix", path, page)
		if status != http.StatusForbidden || !strings.Contains(text, "ssh -L") || strings.Contains(text, ">door<") {
			t.Errorf("%s: %d: %s", page, status, text)
		}
	}
}

func TestPageHasFewConnections(t *testing.T) {
	r := run(t)
	listener := listenFor(t, "tcp", "127.0.0.1:0")
	r.servePage(t, listener)
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	for range maxPageConns {
		dial()
	}
	if n, err := dial().Read(make([]byte, 1)); err == nil {
		t.Errorf("one connection too many got %d bytes", n)
	}
	if n := r.page.conns.Load(); n < maxPageConns {
		t.Errorf("%d connections", n)
	}
}

//go:build linux

package client

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// silentDaemon takes connections and says nothing, as one that was stopped.
func silentDaemon(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "la") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	silent, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	return path
}

// No call waits without a bound for a daemon that is stopped.
func TestCallsToASilentDaemonAreBounded(t *testing.T) {
	t.Parallel()
	path := silentDaemon(t)
	d := New(path)
	d.Transport.ResponseHeaderTimeout = time.Millisecond
	t.Cleanup(d.Close)
	ctx := t.Context()
	for what, call := range map[string]func() error{
		"check":   func() error { _, err := d.Locks.Check(ctx, &lockagentv1.CheckRequest{Name: "door"}); return err },
		"renew":   func() error { _, err := d.Locks.Renew(ctx, &lockagentv1.RenewRequest{}); return err },
		"release": func() error { _, err := d.Locks.Release(ctx, &lockagentv1.ReleaseRequest{}); return err },
		"permits": func() error { _, err := d.Counts.Permits(ctx, &lockagentv1.PermitsRequest{Name: "door"}); return err },
		"list":    func() error { _, err := d.Look.List(ctx, &lockagentv1.ListRequest{}); return err },
		"get":     func() error { _, err := d.Look.Get(ctx, &lockagentv1.GetRequest{Name: "door"}); return err },
		"break":   func() error { _, err := d.Operate.Break(ctx, &lockagentv1.BreakRequest{Name: "door"}); return err },
		"drain":   func() error { _, err := d.Operate.Drain(ctx, &lockagentv1.DrainRequest{}); return err },
		"watch": func() error {
			events, err := d.Look.Watch(ctx, &lockagentv1.WatchRequest{})
			return firstOf(events, err)
		},
		"read log": func() error {
			records, err := d.Look.ReadLog(ctx, &lockagentv1.ReadLogRequest{})
			return firstOf(records, err)
		},
	} {
		t.Run(what, func(t *testing.T) {
			want := "the daemon on " + path + " gave no answer in time, and may still do what it was asked"
			if err := d.Failed(call()); cli.CodeOf(err) != cli.ExitUnavailable || err.Error() != want {
				t.Errorf("code %d, %v; want code %d, %s", cli.CodeOf(err), err, cli.ExitUnavailable, want)
			}
		})
	}
}

// firstOf reads the first message of a stream.
func firstOf[T any](s *connect.ServerStreamForClient[T], err error) error {
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	if s.Receive() {
		return nil
	}
	return s.Err()
}

// A store that waits for the holders of before is one to ask again later.
func TestACallInAGracePeriod(t *testing.T) {
	err := New("x").Failed(wire.Refuse(&lockagent.GraceError{Name: "door"}))
	if cli.CodeOf(err) != cli.ExitUnavailable || !errors.Is(err, lockagent.ErrGrace) {
		t.Errorf("%v, exit code %d", err, cli.CodeOf(err))
	}
}

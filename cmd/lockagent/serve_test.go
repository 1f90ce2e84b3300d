//go:build linux

package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockagent/lockagent/internal/redistest"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// socketPath is a path for a socket. It has to be short.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "la")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// claims acquires a lock through a daemon. The end of the test ends the claim.
func claims(t *testing.T, path, name string) (*lockagentv1.Granted, lockagentv1connect.LockServiceClient) {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	client := lockagentv1connect.NewLockServiceClient(&http.Client{Transport: transport}, "http://lockagent")
	stream, err := client.Acquire(ctx, &lockagentv1.AcquireRequest{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = stream.Close()
	})
	if !stream.Receive() || stream.Msg().GetGranted() == nil {
		t.Fatalf("got %v, %v", stream.Msg(), stream.Err())
	}
	return stream.Msg().GetGranted(), client
}

func says(text string) func(string) bool {
	return func(told string) bool { return strings.Contains(told, text) }
}

func TestServe(t *testing.T) {
	path := socketPath(t)
	d := start(t, "serve", "--socket", path)
	d.stderr.await(t, "that it is ready", says("Ready: "+path+", with the locks in memory\nTry: curl"))
	g, client := claims(t, path, "door")

	call(t, "serve", "--socket", path).expect(t, exitFailed, nil, []string{"in use", "Try: lockagent serve --socket"})
	if _, err := client.Check(t.Context(), &lockagentv1.CheckRequest{Name: "door", Token: g.GetToken()}); err != nil {
		t.Errorf("the first daemon was harmed: %v", err)
	}

	d.stop() // as the first SIGTERM does
	d.stderr.await(t, "that it drains", says("1 claims hold locks, and 0 wait"))
	if _, err := client.Release(t.Context(), &lockagentv1.ReleaseRequest{Claim: g.GetClaim(), Secret: g.GetSecret()}); err != nil {
		t.Error(err)
	}
	d.interrupt(t).expect(t, exitOK, nil, nil)
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}

func TestServeEndsWhenTheDrainHasTakenLong(t *testing.T) {
	path := socketPath(t)
	d := start(t, "serve", "--socket", path, "--drain", "1ms")
	d.stderr.await(t, "that it is ready", says("Ready: "))
	claims(t, path, "door")
	d.interrupt(t).expect(t, exitOK, nil, []string{"Draining for up to 1ms"})
}

func TestServeOverRedis(t *testing.T) {
	redis := redistest.Start(t)
	paths := []string{socketPath(t), socketPath(t)}
	for _, path := range paths {
		d := start(t, "serve", "--socket", path, "--redis", redis.URL())
		d.stderr.await(t, "that it is ready", says("with the locks in redis://"))
	}
	first, _ := claims(t, paths[0], "door")
	_, other := claims(t, paths[1], "desk")
	if r, err := other.Check(t.Context(), &lockagentv1.CheckRequest{Name: "door", Token: first.GetToken()}); err != nil || !r.GetHeld() || r.GetCurrent() {
		t.Errorf("the other host sees %v, %v", r, err)
	}
}

func TestServeThatCannot(t *testing.T) {
	path := socketPath(t)
	call(t, "serve", "--socket", filepath.Join(path, "missing")).expect(t, exitFailed, nil, []string{"make the directory"})
	call(t, "serve", "--socket", path, "--redis", "redis://127.0.0.1:1").expect(t, exitUnavailable, nil, []string{"--redis redis://127.0.0.1:1"})
	call(t, "serve", "--socket", path, "--nats-stream", "X").expect(t, exitUsage, nil, []string{"without --nats"})
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a daemon that did not start left its socket: %v", err)
	}
}

// systemd is told when the daemon is ready, and that it ends. The second signal ends it at once.
func TestServeAsAProcess(t *testing.T) {
	path, notify := socketPath(t), socketPath(t)
	systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: notify, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = systemd.Close() }()
	told := func(want string) {
		t.Helper()
		message := make([]byte, 1000)
		n, err := systemd.Read(message)
		if !strings.HasPrefix(string(message[:n]), want) {
			t.Fatalf("systemd was told %q, %v, want %s", message[:n], err, want)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "serve", "--socket", path)
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+notify)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	told("READY=1\n")
	claims(t, path, "door")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	told("STOPPING=1\n")
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for repeat := time.NewTicker(10 * time.Millisecond); ; { // the first ones may come before the program has let go of signals
		select {
		case <-repeat.C:
			_ = cmd.Process.Signal(syscall.SIGTERM)
			continue
		case <-ended:
			repeat.Stop()
		}
		break
	}
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v", cmd.ProcessState)
	}
	d := start(t, "serve", "--socket", path) // over the socket that it left
	d.stderr.await(t, "that it is ready", says("Ready: "))
}

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/client"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
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

// serving starts a daemon on a socket, with a state directory of its own.
func serving(t *testing.T, path string, flags ...string) *running {
	t.Helper()
	d := start(t, serveFlags(path, flags)...)
	d.stderr.await(t, "that it is ready", says("Ready: "))
	return d
}

// serveFlags are the arguments of a daemon with a socket and a state directory of its own. A Redis is one of the test,
// and grants at once, unless the flags say something else.
func serveFlags(path string, flags []string) []string {
	all := append([]string{"serve", "--socket", path, "--state-dir", path + ".state"}, flags...)
	if slices.Contains(flags, "--redis") && !slices.Contains(flags, "--redis-grace-first") {
		all = append(all, "--redis-grace-first", "0s")
	}
	return all
}

// readWrite is the kind of the locks of lockagent lock.
const readWrite = lockagentv1.Kind_KIND_READ_WRITE

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
	stream, err := client.Acquire(ctx, &lockagentv1.AcquireRequest{Kind: readWrite, Name: name})
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
	t.Parallel()
	path := socketPath(t)
	d := serving(t, path, "--drain-then", "release")
	d.stderr.await(t, "where it is", says("Ready: "+path+", with the locks in memory\nTry: curl"))
	g, client := claims(t, path, "door")

	call(t, "serve", "--socket", path+"2", "--state-dir", path+".state").expect(t, cli.ExitFailed, nil, []string{
		fmt.Sprintf("another daemon, process %d, has %s.state; stop it first", os.Getpid(), path),
		"Try: lockagent serve --state-dir " + path + ".state2 --socket " + path + "22",
	})
	call(t, "serve", "--socket", path, "--operator-socket", path+"-other", "--state-dir", path+".other").
		expect(t, cli.ExitFailed, nil, []string{"in use", "Try: lockagent serve --socket " + path + "2"})
	call(t, "serve", "--socket", path+"2", "--operator-socket", path+"-operator.sock", "--state-dir", path+".other").
		expect(t, cli.ExitFailed, nil, []string{"in use", "Try: lockagent serve --operator-socket"})
	if _, err := client.Check(t.Context(),
		&lockagentv1.CheckRequest{Kind: readWrite, Name: "door", Token: g.GetToken()}); err != nil {
		t.Errorf("the first daemon was harmed: %v", err)
	}

	d.stop() // as the first SIGTERM does
	d.stderr.await(t, "that it drains", says("1 claims hold locks, and 0 wait"))
	if _, err := client.Release(t.Context(),
		&lockagentv1.ReleaseRequest{Claim: g.GetClaim(), Secret: g.GetSecret()}); err != nil {
		t.Error(err)
	}
	d.interrupt(t).expect(t, cli.ExitOK, nil, nil)
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}

func TestServeEndsWhenTheDrainHasTakenLong(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	d := serving(t, path, "--drain-timeout", "1ms", "--drain-then", "release")
	claims(t, path, "door")
	d.interrupt(t).expect(t, cli.ExitOK, nil, []string{"Draining for up to 1ms"})
}

// A daemon that is killed while Redis is away starts, and waits. It goes on with what it had when Redis is back.
func TestServeWaitsForRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.WithConfig("appendonly yes", "appendfsync always"))
	path, notify := socketPath(t), socketPath(t)
	systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: notify, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = systemd.Close() }()
	flags := []string{"--redis", redis.URL(), "--lease", "1h"} // however slow this machine is
	d := serveProcess(t, path, nil, flags...)
	holder := lockProcess(t, path, "door", "--", "sh", "-c", "echo it runs >&2; read line; echo $LOCKAGENT_TOKEN")
	holder.stderr.await(t, "the command", says("it runs"))
	redis.Kill()
	d.signal(t, syscall.SIGKILL)
	waittest.Receive(t, "the end of the process", d.stderr.ended)

	cmd := exec.Command(program(t),
		append([]string{"serve", "--socket", path, "--state-dir", path + ".state"}, flags...)...)
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+notify)
	next := launch(t, cmd)
	next.stderr.await(t, "that it waits", says("Redis is away, and the daemon waits for it"))
	message := make([]byte, 1000)
	if n, err := systemd.Read(message); err != nil ||
		!strings.HasPrefix(string(message[:n]), "STATUS=Waiting for Redis: ") ||
		!strings.Contains(string(message[:n]), "\nEXTEND_TIMEOUT_USEC=30000000") {
		t.Errorf("systemd was told %q, %v", message[:n], err)
	}
	operator := unixHTTP(t, path+"-operator.sock")
	if status, text := page(t, operator, "http://operator/healthz"); status != http.StatusOK {
		t.Errorf("it is not alive: %d %s", status, text)
	}
	if status, text := page(t, operator, "http://operator/readyz"); status != http.StatusServiceUnavailable ||
		!strings.Contains(text, "waits for Redis") {
		t.Errorf("it is ready, or does not say why not: %d %s", status, text)
	}
	redis.Restart()
	next.stderr.await(t, "that it is ready", says("Ready: "))
	looks := &testDaemon{Daemon: client.New(path)}
	t.Cleanup(looks.Close)
	looks.until(t, "door", func(l *lockagentv1.Lock) bool {
		return l.GetHeld() == 1 && l.GetHolders()[0].GetState() == lockagentv1.State_STATE_HELD
	})
	_ = holder.in.Close()
	waittest.Receive(t, "the end of the process", holder.stderr.ended)
	if holder.end != nil {
		t.Errorf("the holder: %v: %s", holder.end, &holder.stderr)
	}
}

// Whoever asks a daemon to end that waits for Redis does not wait. What waiting does not mend is an error at once.
func TestServeThatWaitsForRedisEnds(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	flags := []string{"serve", "--socket", path, "--state-dir", path + ".state", "--redis"}
	d := start(t, append(flags, "redis://127.0.0.1:1")...)
	d.stderr.await(t, "that it waits", says("the daemon waits for it"))
	d.interrupt(t).expect(t, cli.ExitOK, nil, []string{"--redis"})
	redis := redistest.Start(t, redistest.WithPassword("right"))
	if err := os.WriteFile(path+".password", []byte("wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	call(t, append(flags, "redis://"+redis.Addr(), "--redis-password-file", path+".password")...).
		expect(t, cli.ExitNotPermitted, nil, []string{"--redis"})
}

// A start that fails leaves the claims of the daemon before as they were.
func TestAStartThatFailsKeepsTheClaims(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	d := serveProcess(t, path, nil)
	call(t, "acquire", "--socket", path, "--ttl", "1h", "door").expect(t, cli.ExitOK, nil, nil)
	d.signal(t, syscall.SIGKILL)
	waittest.Receive(t, "the end of the process", d.stderr.ended)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	call(t, "serve", "--socket", path, "--state-dir", path+".state", "--web", taken.Addr().String()).
		expect(t, cli.ExitFailed, nil, []string{"--web: listen tcp"})

	serving(t, path)
	call(t, "ls", "--socket", path).expect(t, cli.ExitOK, []string{"door"}, nil)
}

func TestServeOverRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	paths := []string{socketPath(t), socketPath(t)}
	for _, path := range paths {
		serving(t, path, "--redis", redis.URL()).
			stderr.await(t, "where the locks are", says("with the locks in redis://"))
	}
	first, _ := claims(t, paths[0], "door")
	_, other := claims(t, paths[1], "desk")
	if r, err := other.Check(t.Context(),
		&lockagentv1.CheckRequest{Kind: readWrite, Name: "door", Token: first.GetToken()}); err != nil ||
		!r.GetHeld() || r.GetCurrent() {
		t.Errorf("the other host sees %v, %v", r, err)
	}
}

func TestServeThatCannot(t *testing.T) {
	path := socketPath(t)
	serve := func(flags ...string) result {
		return call(t, append([]string{"serve", "--socket", path, "--state-dir", path + ".state"}, flags...)...)
	}
	serve("--socket", filepath.Join(path, "missing"), "--operator-socket", path+"-operator.sock").
		expect(t, cli.ExitFailed, nil, []string{"make the directory"})
	serve("--redis", "redis://127.0.0.1:1/x").expect(t, cli.ExitConfig, nil, []string{"--redis redis://127.0.0.1:1"})
	serve("--redis", "redis://127.0.0.1:1", "--redis-password-file", path+".none").
		expect(t, cli.ExitConfig, nil, []string{"redis: " + path + ".none: no such file"})
	serve("--nats-stream", "X").expect(t, cli.ExitUsage, nil, []string{"--nats-stream means nothing without nats.url"})
	serve("--nats", "nats://127.0.0.1:1", "--nats-creds", path+".none").
		expect(t, cli.ExitConfig, nil, []string{"--nats-creds: the file cannot be read"})
	serve("--socket-group", "nobody-has-this").
		expect(t, cli.ExitUsage, nil,
			[]string{`--socket-group names the group "nobody-has-this", which this host does not have`})
	serve("--metrics", "256.0.0.1:1").
		expect(t, cli.ExitFailed, nil, []string{"256.0.0.1", "Try: lockagent serve --metrics 127.0.0.1:0"})
	if err := os.WriteFile(path+".file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	serve("--state-dir", path+".file").
		expect(t, cli.ExitFailed, nil,
			[]string{"state: " + path + ".file cannot be used: ", "Try: lockagent serve --state-dir DIRECTORY"})
	settings(t, "rules: [{match: '**', users: [nobody-has-this], allow: [look]}]\n")
	serve().
		expect(t, cli.ExitConfig, nil,
			[]string{`rules.1 names the user "nobody-has-this", which this host does not have`})
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a daemon that did not start left its socket: %v", err)
	}
}

// systemd is told when the daemon is ready, and that it ends. The second signal ends it at once.
func TestServeAsAProcess(t *testing.T) {
	t.Parallel()
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
	cmd := exec.Command(program(t), "serve", "--socket", path, "--state-dir", path+".state", "--drain-then", "release",
		"--drain-timeout", "1h")
	// it beats at once, and then in an hour
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+notify, "WATCHDOG_USEC=7200000000")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	told("WATCHDOG=1")
	told("READY=1\n")
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	told("RELOADING=1\nMONOTONIC_USEC=")
	told("READY=1\n")
	claims(t, path, "door")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	told("STOPPING=1\nSTATUS=Waiting for claims to end\nEXTEND_TIMEOUT_USEC=3630000000") // longer than the unit says
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	// the first ones may come before the program has let go of signals
	for repeat := time.NewTicker(10 * time.Millisecond); ; {
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
	serving(t, path) // over the socket and the state that it left
}

//go:build linux

package agentclient

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/machinetest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// process is this program as a daemon or a client of its own.
type process struct {
	t   testing.TB
	cmd *exec.Cmd
	out *bufio.Scanner
}

func start(t testing.TB, as, path string, more ...string) *process {
	t.Helper()
	p, in := startWithInput(t, as, path, more...)
	_ = in.Close()
	return p
}

func startWithInput(t testing.TB, as, path string, more ...string) (*process, io.WriteCloser) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(append(os.Environ(), role+"="+as, "LOCKAGENT_SOCKET="+path), more...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{t, cmd, bufio.NewScanner(out)}
	t.Cleanup(p.kill)
	return p, in
}

func (p *process) says(want string) {
	p.t.Helper()
	if !p.out.Scan() || p.out.Text() != want {
		p.t.Fatalf("the process said %q, want %q", p.out.Text(), want)
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// stop stops the process, and returns when none of its threads runs.
func (p *process) stop() {
	p.t.Helper()
	machinetest.Stop(p.t, p.cmd.Process)
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func TestAKilledClientLeavesItsLock(t *testing.T) {
	r := run(t, socketPath(t))
	p := start(t, "client", r.path)
	p.says("held")
	locks := dial(t, r.path)
	if _, err := locks.Lock("door").TryAcquire(waittest.Context(t)); !errors.Is(err, channelapi.ErrHeld) {
		t.Fatalf("TryAcquire: %v", err)
	}
	p.kill()
	g, err := locks.Lock("door").Acquire(waittest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Release(waittest.Context(t)); err != nil {
		t.Error(err)
	}
}

// lost waits until a hold is lost, and fails unless that was at its deadline, and for that reason.
func lost(t *testing.T, g channelapi.Grant) {
	t.Helper()
	waittest.Receive(t, "the end of the hold", g.Done())
	if g.Held() {
		t.Error("a lost grant is held")
	}
	want := lockagent.LostError{Name: g.Name(), Owner: g.Owner(), Token: g.Token(), Reason: lockagent.LostDeadline}
	if e, ok := errors.AsType[*lockagent.LostError](g.Cause()); !ok || *e != want {
		t.Errorf("%v, want %v", g.Cause(), &want)
	}
	if err := g.Release(waittest.Context(t)); !errors.Is(err, channelapi.ErrLost) {
		t.Errorf("Release: %v", err)
	}
}

func TestAStoppedDaemon(t *testing.T) {
	t.Parallel()
	var (
		p     *process
		locks *channelapi.Locks
		g     channelapi.Grant
	)
	ctx := waittest.Context(t)
	err := channelapi.ErrLeaseTooShort // for what a busy machine needs
	for lease := 400 * time.Millisecond; errors.Is(err, channelapi.ErrLeaseTooShort); lease *= 2 {
		path := socketPath(t)
		p = start(t, "daemon", path, "AGENTCLIENT_TEST_LEASE="+lease.String())
		p.says("ready")
		locks = dial(t, path)
		g, err = locks.Lock("door").Acquire(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.stop()
	defer p.signal(syscall.SIGCONT)
	lost(t, g)

	// For a moment the request may wait for the hold that was just lost. So it has to wait for longer, before it can
	// tell that the daemon is silent.
	_, err = locks.Lock("door", channelapi.Wait(time.Second)).Acquire(waittest.Context(t))
	if e, ok := errors.AsType[*channelapi.WaitError](err); !ok || e.Silent == 0 ||
		!errors.Is(err, channelapi.ErrTimeout) || !errors.Is(err, channelapi.ErrStoreUnavailable) {
		t.Errorf("a wait for a silent daemon: %v", err)
	}
	p.signal(syscall.SIGCONT)
	again, err := locks.Lock("door", channelapi.Lease(time.Hour)).Acquire(waittest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	if again.Token() <= g.Token() {
		t.Errorf("token %d after %d", again.Token(), g.Token())
	}
	if err := again.Release(waittest.Context(t)); err != nil {
		t.Error(err)
	}
}

func TestAKilledDaemon(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	p := start(t, "daemon", path, "AGENTCLIENT_TEST_LEASE=3s") // the daemon is killed before that is over
	p.says("ready")
	locks := dial(t, path)
	g, err := locks.Lock("door").Acquire(waittest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	waits, cancel := context.WithCancel(waittest.Context(t))
	defer cancel()
	waiting := locks.Lock("door").AcquireAsync(waits)
	p.kill()
	lost(t, g)
	if _, err := locks.Lock("door").TryAcquire(waittest.Context(t)); !errors.Is(err, channelapi.ErrStoreUnavailable) {
		t.Errorf("TryAcquire: %v", err)
	}
	if _, err := Dial(waittest.Context(t), path); !errors.Is(err, channelapi.ErrStoreUnavailable) {
		t.Errorf("Dial: %v", err)
	}
	// Another daemon takes its place, and whoever waits goes on.
	start(t, "daemon", path).says("ready")
	next := waittest.Receive(t, "a grant of the next daemon", waiting)
	if next.Err() != nil {
		t.Fatal(next.Err())
	}
	if err := next.Release(waittest.Context(t)); err != nil {
		t.Error(err)
	}
}

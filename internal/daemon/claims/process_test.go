//go:build linux

package claims

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/quota"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	"github.com/lockagent/lockagent/internal/machinetest"
)

// sleeper starts a process that lives until it is killed, or its input ends. uid is its user.
func sleeper(t *testing.T, uid uint32) (cmd *exec.Cmd, in io.Closer) {
	t.Helper()
	cmd = exec.Command("/bin/cat")
	if uid != uint32(os.Getuid()) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, in
}

// me is this process.
var me = Client{PID: os.Getpid(), UID: uint32(os.Getuid())}

func TestDetachedClaimEndsWithItsProcess(t *testing.T) {
	b, _ := open(t)
	cmd, _ := sleeper(t, me.UID)
	bound := Request{Client: me, Name: "door", Detach: true, ForPID: cmd.Process.Pid}
	s := ask(t, b, bound)
	read[Granted](t, s)
	over(t, s)
	waits := ask(t, b, bound) // ends while it waits
	read[Queued](t, waits)
	next := ask(t, b, Request{Client: me, Name: "door"})
	read[Queued](t, next)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	read[Granted](t, next)
	if e := read[Ended](t, waits); e.Cause != nil {
		t.Error(e.Cause)
	}
	waits.Close()
	next.Close()
	if left := b.Await(background); left != 0 {
		t.Errorf("%d claims are left", left)
	}
}

// A claim that waits for its lock is bound to its process also after a restart of the daemon.
func TestAWaitingClaimEndsWithItsProcessAfterARestart(t *testing.T) {
	w := newWorld(t)
	cmd, _ := sleeper(t, me.UID)
	dead, _ := sleeper(t, me.UID)
	for _, p := range []int{cmd.Process.Pid, dead.Process.Pid} {
		w.started[p] = uint64(p)
	}
	read[Granted](t, ask(t, w.book, Request{Client: ann, Name: "door"}))
	bound := Request{
		Client: me, Name: "door", Detach: true, ForPID: cmd.Process.Pid, Secret: strings.Repeat("s", MinSecret),
	}
	ended := bound
	ended.ForPID, ended.Secret = dead.Process.Pid, ""
	read[Queued](t, ask(t, w.book, bound))
	over := read[Queued](t, ask(t, w.book, ended))
	w.kill()
	delete(w.started, dead.Process.Pid)
	w.begin()
	if _, err := w.book.Attach(me, over.Claim, over.Secret, nil); !errors.Is(err, refusal.ErrNoClaim) {
		t.Errorf("the claim of a process that has ended: %v", err)
	}
	again := ask(t, w.book, bound)
	read[Queued](t, again)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if e := read[Ended](t, again); e.Cause != nil {
		t.Error(e.Cause)
	}
}

// Who attaches to a claim has it from then on, whatever becomes of its process.
func TestAnAttachedClaimOutlivesItsProcess(t *testing.T) {
	b, _ := open(t)
	cmd, _ := sleeper(t, me.UID)
	before := pidfds(t)
	s := ask(t, b, Request{Client: me, Name: "door", Detach: true, ForPID: cmd.Process.Pid})
	g := read[Granted](t, s)
	over(t, s)
	again, err := b.Attach(me, g.Claim, g.Secret, nil)
	if err != nil {
		t.Fatal(err)
	}
	read[Granted](t, again)
	if after := pidfds(t); after != before {
		t.Errorf("%d descriptors of processes are open, and there were %d", after, before)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = cmd.Process.Wait()
	if n := b.Counts(); n.Held != 1 {
		t.Error("the claim has ended")
	}
	again.Close()
	if left := b.Await(background); left != 0 {
		t.Errorf("%d claims are left", left)
	}
}

// A claim that ends before its process lets go of it.
func TestProcessOutlivesItsClaim(t *testing.T) {
	b, _ := open(t)
	cmd, in := sleeper(t, me.UID)
	before := pidfds(t) // the one of this test
	for range 3 {
		s := ask(t, b, Request{Client: me, Name: "door", Detach: true, ForPID: cmd.Process.Pid})
		g := read[Granted](t, s)
		over(t, s)
		if ended, err := b.Release(background, g.Claim, g.Secret, 0); !ended || err != nil {
			t.Errorf("%v, %v", ended, err)
		}
	}
	if after := pidfds(t); after != before {
		t.Errorf("%d descriptors of processes are open, and there were %d", after, before)
	}
	_ = in.Close()
	_ = cmd.Wait()
}

// pidfds counts the descriptors of processes that this process has.
func pidfds(t *testing.T) (n int) {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if what, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil && strings.Contains(what, "pidfd") {
			n++
		}
	}
	return n
}

func TestProcessThatMayNotBeWatched(t *testing.T) {
	b, _ := open(t)
	refused := func(who Client, pid int) {
		t.Helper()
		_, err := b.Acquire(Request{Client: who, Name: "door", Detach: true, ForPID: pid})
		if bad, ok := errors.AsType[*lockagent.OptionError](err); !ok || bad.Option != "for_pid" {
			t.Errorf("process %d: %v", pid, err)
		}
	}
	cmd, in := sleeper(t, me.UID)
	refused(Client{PID: me.PID, UID: me.UID + 1}, cmd.Process.Pid) // another user's
	refused(Client{UID: me.UID}, cmd.Process.Pid)                  // of a client whose process the system does not tell
	_ = in.Close()
	_ = cmd.Process.Kill()
	_, _ = cmd.Process.Wait()
	refused(me, cmd.Process.Pid) // it has ended

	if me.UID != 0 {
		return // only root can start a process of another user
	}
	cmd, _ = sleeper(t, 4242)
	refused(Client{PID: me.PID, UID: 4243}, cmd.Process.Pid)
	for _, may := range []Client{me, {PID: me.PID, UID: 4242}} {
		s := ask(t, b, Request{Client: may, Name: "door", Detach: true, ForPID: cmd.Process.Pid})
		read[Granted](t, s)
		s.Close()
	}
	if left := b.Await(context.Background()); left != 0 {
		t.Errorf("%d claims are left", left)
	}
}

// A process is closed because its claim is over, or because somebody has attached to that.
func TestAProcessThatIsClosedHasNotEnded(t *testing.T) {
	cmd, _ := sleeper(t, me.UID)
	p, err := bind(cmd.Process.Pid, me)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan bool)
	go func() { ended <- p.await() }()
	p.close()
	if <-ended {
		t.Error("it has ended")
	}
}

// A client in another PID namespace means another process by a number.
func TestAProcessInAnotherNamespace(t *testing.T) {
	b, _ := open(t)
	cmd := exec.Command("/bin/cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if me.UID != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	machinetest.Needs(t, cmd.Start()) // a machine may forbid namespaces
	defer func() {
		_ = in.Close()
		_ = cmd.Wait()
	}()
	inside := Client{PID: cmd.Process.Pid, UID: me.UID}
	_, err = b.Acquire(Request{Client: inside, Name: "door", Detach: true, ForPID: os.Getpid()})
	if !errors.Is(err, lockagent.ErrBadOption) || !strings.Contains(err.Error(), "another PID namespace") {
		t.Errorf("got %v", err)
	}
	s := ask(t, b, Request{Client: inside, Name: "door", Detach: true, Lease: time.Minute}) // no number, no matter
	read[Granted](t, s)
	s.Close()
}

// Each claim that is bound to a process takes a descriptor.
func TestProcessesAreLimited(t *testing.T) {
	b, _ := openWith(t, map[quota.Kind]quota.Bound{quota.Processes: {Each: 1, All: 2}})
	cmd, _ := sleeper(t, me.UID)
	req := func(name lockagent.Name) Request {
		return Request{Client: me, Name: name, Detach: true, ForPID: cmd.Process.Pid}
	}
	refused := func(what string, limit int, req Request) {
		t.Helper()
		_, err := b.Acquire(req)
		if quota, ok := errors.AsType[*refusal.QuotaError](err); !ok || quota.What != what || quota.Limit != limit {
			t.Errorf("got %v", err)
		}
	}
	for range 2 { // the place of one that is over is free again
		s := ask(t, b, req("door"))
		read[Granted](t, s)
		refused("claims that end with processes", 1, req("desk"))
		s.Close()
		if err := s.claim.await(background); err != nil {
			t.Fatal(err)
		}
	}
	b.cfg.Quotas.Add(me.UID+1, quota.Processes, quota.Processes)
	refused(refusal.Processes, 2, req("door"))
}

// The process lives, and there is no descriptor for it, or none to find out whose it is.
func TestProcessesWithoutDescriptors(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	free, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(free)
	for more := range 2 {
		few := unix.Rlimit{Cur: uint64(free + more), Max: before.Max}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
			t.Fatal(err)
		}
		p, err := bind(os.Getpid(), me)
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
			t.Fatal(err)
		}
		if quota, ok := errors.AsType[*refusal.QuotaError](err); !ok || quota.What != refusal.Files || p != nil {
			t.Errorf("with %d descriptors that are free: %v", more, err)
		}
	}
}

// A process that has ended and that nobody has waited for has its number still.
func TestZombie(t *testing.T) {
	b, _ := open(t)
	cmd, _ := sleeper(t, me.UID)
	p, err := bind(cmd.Process.Pid, me)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	p.watch(func() { close(ended) })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ended
	p.close()
	if _, err := b.Acquire(Request{
		Client: me, Name: "door", Detach: true, ForPID: cmd.Process.Pid,
	}); !errors.Is(err, lockagent.ErrBadOption) {
		t.Error(err)
	}
}

package lockcmd

import (
	"bufio"
	"errors"
	"io"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/lockagent/lockagent/internal/bootclock"
	"github.com/lockagent/lockagent/internal/daemon/follow"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// supervising is a command that runs while a lock is held, with this lease, whose deadline comes in the time that is
// left.
func supervising(t *testing.T, lease, left time.Duration, of supervision) *supervised {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // a test may have killed it
	})
	h := &holding{supervision: &of, stderr: io.Discard}
	c := &claimed{name: "door"}
	h.claims = []*claimed{c}
	h.hear(renewal(c, lease))
	c.deadline = bootclock.Now() + left
	return &supervised{holding: h, cmd: cmd, own: true}
}

// renewal is the news of a lease.
func renewal(c *claimed, lease time.Duration) news {
	return news{of: c, event: &lockagentv1.ClaimEvent{Event: &lockagentv1.ClaimEvent_Renewed{
		Renewed: &lockagentv1.Renewed{Deadline: &lockagentv1.Deadline{
			Boottime: int64(bootclock.Now() + lease), BootId: bootclock.Clock(),
		}},
	}}}
}

// The grace of a lock that is renewed in time never begins, however long it is: the shortest time that is left comes
// before a renewal.
func TestTheGraceBeginsBehindTheRenewals(t *testing.T) {
	const lease = 30 * time.Second
	for _, grace := range []time.Duration{time.Second, lease / 3, lease, 10 * lease} {
		for _, changed := range []bool{true, false} {
			r := supervising(t, lease, lease-lease/3, supervision{
				onLost: reactionFlag{syscall.SIGTERM}, grace: grace, changed: changed,
			})
			if r.watch(); r.stopped {
				t.Errorf(
					"with a grace of %v, given %v, the command had to end while its lock was renewed", grace, changed,
				)
			}
		}
	}
}

// A lease that was short at first, because the daemon started anew, is not the lease.
func TestTheGraceIsOfTheLongestLease(t *testing.T) {
	r := supervising(t, time.Second, time.Second, supervision{
		onLost: reactionFlag{syscall.SIGTERM}, grace: 5 * time.Second, changed: true,
	})
	r.hear(renewal(r.claims[0], 30*time.Second))
	if left := r.left(); left != 5*time.Second {
		t.Errorf("the grace is %v", left)
	}
}

// Whoever waits for the clock after a loss does not spin.
func TestNothingIsLeftForTheClockAfterALoss(t *testing.T) {
	for what, on := range map[string]reactionFlag{"ignore": {}, "kill": {syscall.SIGKILL}} {
		r := supervising(t, time.Second, 0, supervision{onLost: on})
		if r.watch(); !r.stopped || r.lost == nil {
			t.Fatalf("%s: the loss was not noted", what)
		}
		if on.signal != 0 && !r.struck {
			t.Errorf("%s: the command was not killed", what)
		}
		if now, next := bootclock.Now(), r.next(); next < now+follow.Glance/2 {
			t.Errorf("%s: the clock comes again after %v", what, next-now)
		}
	}
	r := supervising(t, time.Second, 0, supervision{onLost: reactionFlag{syscall.SIGTERM}, grace: time.Second})
	r.claims[0].deadline, r.lost = bootclock.Now()+time.Minute, errors.New("broken")
	if r.watch(); r.struck || r.killAt == 0 || r.next() != r.killAt {
		t.Errorf("SIGKILL is to come at %v, and the clock is looked at at %v", r.killAt, r.next())
	}
}

// Whoever got the number of a process that has ended is not signalled in its place.
func TestOnlyTheProcessThatWasSeenIsSignalled(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "cat")
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
	seen, ok := processAt(cmd.Process.Pid)
	if !ok || seen.pid != cmd.Process.Pid || seen.started == 0 {
		t.Fatalf("%+v", seen)
	}
	before := seen
	before.started--
	before.signal(syscall.SIGKILL)
	if _, err := io.WriteString(in, "lives\n"); err != nil {
		t.Error(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "lives\n" {
		t.Errorf("it says %q, %v", line, err)
	}
	seen.signal(syscall.SIGKILL)
	_ = cmd.Wait()
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v", status)
	}
	seen.signal(syscall.SIGKILL) // nobody has the number
	if _, ok := processAt(cmd.Process.Pid); ok {
		t.Error("a process that has ended is there")
	}
}

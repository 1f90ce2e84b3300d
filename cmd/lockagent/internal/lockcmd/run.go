//go:build linux

package lockcmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
	"github.com/lockagent/lockagent/internal/bootclock"
	"github.com/lockagent/lockagent/internal/daemon/follow"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// supervised is a command that runs while locks are held.
type supervised struct {
	*holding
	cmd  *exec.Cmd
	own  bool          // process group of the command
	kept bool          // this process keeps the locks for what the command has left in the background
	gone chan struct{} // closed when nothing of the command is left

	ended  bool // the command itself has
	status syscall.WaitStatus
	alone  bool // it left nothing in the background

	told    warned        // of what the command was warned, by which signals
	asked   int           // how often somebody asked us to end
	stopped bool          // the command was told that it has to end, because of a loss
	killAt  time.Duration // by the boot clock; 0 is never
	struck  bool          // the command got SIGKILL
	killed  bool          // and all that it left
}

// exit is the end of a command.
type exit struct {
	status syscall.WaitStatus
	alone  bool // it left nothing in the background
}

// supervise runs the command, and releases the locks when it has ended. Its error has the exit code of the command.
func (h *holding) supervise(cmd *exec.Cmd, closed bool) error {
	// What the command leaves in the background becomes a child of this process. So it can be killed as well, and
	// somebody knows whether it still has the locks.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return h.giveBack(err)
	}
	// With a terminal the command stays in our process group, which the shell puts in the foreground. So it gets the
	// signals of the terminal itself. In a group of its own it would be stopped as soon as it reads from the terminal,
	// even if its standard input is something else.
	hasTerminal, _ := controllingTerminal()
	r := &supervised{holding: h, cmd: cmd, gone: make(chan struct{}), own: !hasTerminal}
	if left := r.left(); r.changed && left != 0 && left < r.grace {
		fmt.Fprintf(
			h.stderr, "lockagent: --grace is %v rather than %v: it cannot be longer than half of the lease\n",
			readable.Duration(left), readable.Duration(r.grace),
		)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: r.own}
	if err := r.start(closed); err != nil {
		return h.giveBack(&cli.Failure{Code: codeOfCommand(err), Err: err})
	}
	if !closed {
		binding, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			err := h.bind(binding, int32(r.cmd.Process.Pid))
			if err == nil {
				return
			}
			select {
			case h.news <- news{of: h.claims[0], unbound: err}:
			case <-binding.Done():
			}
		}()
	}
	ended := make(chan exit, 1)
	go r.await(ended)
	for !r.over() {
		next := r.next()
		select {
		case e := <-ended:
			r.ended, r.status, r.alone = true, e.status, e.alone
			inherited := r.inherited()
			r.kept = !e.alone && !closed && (!inherited || r.atLeast > 0) // what is left does not know how long that is
			if r.kept && !inherited {
				fmt.Fprintln(
					h.stderr,
					"lockagent: the daemon was started anew, so the lock ends with this process; waiting for what "+
						"the command has left in the background",
				)
			}
		case <-r.gone:
			r.alone = true
		case s := <-h.signals:
			r.forward(s.(syscall.Signal))
		case n := <-h.news:
			h.hear(n)
		case <-until(next):
		}
		h.catchUp(next)
		r.warn()
		r.watch()
	}
	return r.end(closed)
}

// await waits for the command, and for what it leaves in the background.
func (r *supervised) await(ended chan<- exit) {
	defer close(r.gone)
	var status syscall.WaitStatus
	for own := false; !own; {
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			break
		}
		own = pid == r.cmd.Process.Pid
	}
	for options := syscall.WNOHANG; ; {
		pid, err := syscall.Wait4(-1, nil, options, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil: // there is nobody
			if options == syscall.WNOHANG {
				ended <- exit{status, true}
			}
			return
		case pid == 0: // somebody lives
			ended <- exit{status, false}
			options = 0
		}
	}
}

// start starts the command. It inherits the connections of the locks, unless closed is set.
func (r *supervised) start(closed bool) error {
	// Ends that this process ignores it, which the command would inherit.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if !closed {
		for _, c := range r.claims {
			fd, err := c.inheritable()
			if errors.Is(err, net.ErrClosed) {
				continue
			}
			if err != nil {
				return err
			}
			defer func() { _ = unix.Close(fd) }()
		}
	}
	err := r.cmd.Start()
	if errors.Is(err, unix.ENOEXEC) { // a script without an interpreter; execvp has the shell run it
		script := exec.Command("/bin/sh", append([]string{r.cmd.Path}, r.cmd.Args[1:]...)...)
		script.Env, script.SysProcAttr = r.cmd.Env, r.cmd.SysProcAttr
		script.Stdin, script.Stdout, script.Stderr = r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr
		r.cmd = script
		err = r.cmd.Start()
	}
	return err
}

// bind tells the daemon which processes work under the locks. If this process is killed, the locks last until they have
// ended. The connections that they inherit do the same for as long as the daemon lives.
func (h *holding) bind(ctx context.Context, pids ...int32) error {
	var errs []error
	for _, c := range h.claims {
		errs = append(errs, follow.Repeat(ctx, patience, func() error {
			_, err := c.daemon.Locks.Bind(ctx, &lockagentv1.BindRequest{Claim: c.ID, Secret: c.Secret, Pids: pids})
			return c.daemon.Failed(err)
		}))
	}
	return errors.Join(errs...)
}

// inheritors are the processes that the command has left in the background and that have inherited a lock. Those of
// which the daemon would know too many are left out.
func (r *supervised) inheritors() (pids []int32) {
	locks := make(map[string]bool)
	for _, c := range r.claims {
		if raw, err := c.conn.(*net.UnixConn).SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) {
				link, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
				locks[link] = true
			})
		}
	}
	for _, p := range descendants(nobody) {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.pid))
		has := slices.ContainsFunc(files, func(file string) bool {
			link, err := os.Readlink(file)
			return err == nil && locks[link]
		})
		if has && len(pids) < refusal.MaxWorkers {
			pids = append(pids, int32(p.pid))
		}
	}
	return pids
}

// inherited reports whether what the command has left in the background keeps the locks without this process.
func (r *supervised) inherited() bool {
	return !slices.ContainsFunc(r.claims, func(c *claimed) bool { return !c.connected() })
}

// over reports whether there is nothing more to do. After a loss nothing of the command may be left.
func (r *supervised) over() bool {
	return r.ended && (r.alone || r.killAt == 0 && !r.kept || r.killed)
}

// next is when the clock has to be looked at. It lies ahead if the clock has nothing more to say.
func (r *supervised) next() time.Duration {
	at := bootclock.Now() + follow.Glance
	if !r.stopped {
		at = min(at, r.deadline()-r.left())
	}
	if r.killAt != 0 && !r.struck {
		at = min(at, r.killAt)
	}
	return at
}

// left is the grace: one that every renewal leaves. A renewal begins when a third of the lease has passed. So one that
// takes long, or a second attempt, still comes before the grace begins.
func (r *supervised) left() time.Duration {
	if r.onLost.signal == syscall.SIGKILL || r.onLost.signal == 0 {
		return 0
	}
	share := time.Duration(3)
	if r.changed {
		share = 2
	}
	lease := r.claims[0].lease
	for _, c := range r.claims[1:] {
		lease = min(lease, c.lease)
	}
	return min(r.grace, lease/share)
}

// watch ends the command when the lock is lost, and before that.
func (r *supervised) watch() {
	now, deadline := bootclock.Now(), r.deadline()
	lost := r.expired()
	if !r.stopped && !r.over() && (lost || now >= deadline-r.left()) {
		r.stopped = true
		r.late(now + r.left())
		if r.lost == nil {
			r.lost = errors.New("no renewal came in time")
		}
		r.say("%v", r.lostFailure())
		if r.onLost.signal != 0 {
			r.killAt = min(deadline, now+r.left())
			r.signal(r.onLost.signal)
		}
	}
	if r.killAt != 0 && now >= r.killAt {
		r.kill()
	}
}

// warn signals the command when a lock is wanted, and when one is uncertain. It does so once for all locks, and again
// for one that has become uncertain once more.
func (r *supervised) warn() {
	var now warned
	for _, c := range r.claims {
		if c.Wanted {
			now.onWanted = r.onWanted
		}
		if c.Uncertain {
			now.onUncertain = r.onUncertain
		}
	}
	before := r.told
	r.told = now
	if r.stopped || r.ended {
		return
	}
	if now.onUncertain != before.onUncertain && now.onUncertain.signal != 0 {
		r.signal(now.onUncertain.signal)
	}
	if now.onWanted != before.onWanted && now.onWanted.signal != 0 {
		r.signal(now.onWanted.signal)
	}
}

// forward passes a signal on. What the terminal sent to its foreground the command has got already. Whoever asks twice
// for the end gets it, after the grace.
func (r *supervised) forward(s syscall.Signal) {
	ofTerminal := s == syscall.SIGINT || s == syscall.SIGQUIT || s == syscall.SIGTSTP || s == syscall.SIGWINCH
	if _, foreground := controllingTerminal(); r.own || !ofTerminal || !foreground {
		r.signal(s)
	}
	if s == syscall.SIGTSTP {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	}
	if s == syscall.SIGINT || s == syscall.SIGTERM {
		if r.asked++; r.asked > 1 && r.killAt == 0 {
			r.killAt = bootclock.Now() + r.grace
		}
	}
}

// signal sends a signal to the process group of the command. A command on a terminal has no group of its own. Then the
// command gets the signal, and so do its descendants in our group. If the command has ended, its children that are left
// get it. Another lockagent passes the signal on by itself.
func (r *supervised) signal(s syscall.Signal) {
	if r.own && !r.ended {
		_ = unix.Kill(-r.cmd.Process.Pid, s) // that nobody is left is what it may be for
		return
	}
	for _, p := range descendants(isOurs) {
		if r.own && p.group == r.cmd.Process.Pid || !r.own &&
			(p.pid == r.cmd.Process.Pid || r.ended && p.parent == os.Getpid() || p.group == unix.Getpgrp()) {
			p.signal(s)
		}
	}
}

// controllingTerminal tells whether this process has one, and whether its process group is in the foreground there.
func controllingTerminal() (has, foreground bool) {
	fd, err := unix.Open("/dev/tty", unix.O_RDONLY|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, false
	}
	defer func() { _ = unix.Close(fd) }()
	group, err := unix.IoctlGetUint32(fd, unix.TIOCGPGRP)
	return true, err == nil && int(group) == unix.Getpgrp()
}

// kill kills the command, and what it has started.
func (r *supervised) kill() {
	r.struck = true
	r.signal(syscall.SIGKILL)
	if r.ended {
		r.sweep()
	}
}

// sweepTime bounds how long processes may take to die that were killed. They are looked for again after sweepPause.
const (
	sweepTime  = 5 * time.Second
	sweepPause = 50 * time.Millisecond
)

// sweep kills what is left of the command, again until nobody has started anybody meanwhile.
func (r *supervised) sweep() {
	r.killed = true
	for until := bootclock.Now() + sweepTime; bootclock.Now() < until; {
		for _, p := range descendants(nobody) {
			p.signal(unix.SIGKILL)
		}
		select {
		case <-r.gone:
			return
		case <-time.After(sweepPause):
		}
	}
}

// end releases the locks, unless somebody who was left behind has inherited them.
func (r *supervised) end(closed bool) error {
	if !r.alone && !closed && r.lost == nil {
		r.say("what the command left in the background keeps the lock")
		ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
		defer cancel()
		if err := r.bind(ctx, r.inheritors()...); err != nil { // it was told so of the command as well
			r.say("the next daemon will not know of that: %s", cli.Plain(err))
		}
	} else {
		r.finish()
	}
	switch {
	case r.lost != nil:
		return r.lostFailure()
	case r.status.Signaled():
		return &cli.Failure{Code: cli.ExitSignal + int(r.status.Signal()), Err: signalled(r.status.Signal())}
	case r.status.ExitStatus() != 0:
		return &cli.Failure{Code: r.status.ExitStatus(), Err: cli.ErrQuiet}
	}
	return nil
}

// descendant is a process that this one, or one of its descendants, has started.
type descendant struct {
	pid, parent, group int
	started            uint64 // tells it from others with its number
}

// signal signals the process. It has perhaps ended meanwhile, and its number may be that of somebody else.
func (p descendant) signal(s syscall.Signal) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(fd) }()
	if now, ok := processAt(p.pid); ok && now.started == p.started {
		_ = unix.PidfdSendSignal(fd, s, nil, 0) // that it has ended is what it may be for
	}
}

// processAt reads what the system tells of a process. It reports false if there is none.
func processAt(pid int) (p descendant, ok bool) {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat") // that of a process that has ended is empty
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	const parent, group, started = 1, 2, 19
	if len(fields) <= started {
		return p, false
	}
	var errs [3]error
	p.pid = pid
	p.parent, errs[0] = strconv.Atoi(fields[parent])
	p.group, errs[1] = strconv.Atoi(fields[group])
	p.started, errs[2] = strconv.ParseUint(fields[started], 10, 64)
	return p, errors.Join(errs[:]...) == nil
}

// isOurs reports whether a process runs this program.
func isOurs(pid int) bool {
	ours, err := os.Stat("/proc/self/exe")
	other, failed := os.Stat("/proc/" + strconv.Itoa(pid) + "/exe")
	return err == nil && failed == nil && os.SameFile(ours, other)
}

// nobody looks after descendants.
func nobody(int) bool { return false }

// descendants are the children of this process and all that they have started. What is below a process that looks after
// it is left out. Parents come first: a script that is told to end does not go on with its next line because the
// command of this line has ended.
func descendants(looksAfter func(pid int) bool) (all []descendant) {
	of := make(map[int][]descendant)
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if p, ok := processAt(pid); ok {
			of[p.parent] = append(of[p.parent], p)
		}
	}
	for next := of[os.Getpid()]; len(next) > 0; {
		all = append(all, next...)
		var below []descendant
		for _, p := range next {
			if !looksAfter(p.pid) {
				below = append(below, of[p.pid]...)
			}
		}
		next = below
	}
	return all
}

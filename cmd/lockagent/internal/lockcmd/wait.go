//go:build linux

package lockcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/client"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
	"github.com/lockagent/lockagent/internal/bootclock"
	"github.com/lockagent/lockagent/internal/daemon/follow"
)

// supervision are the flags that say what becomes of a command whose lock is lost.
type supervision struct {
	onLost   reactionFlag
	warned   // what the command gets before that
	grace    time.Duration
	changed  bool // grace was given
	lostCode exitFlag
	verbose  bool
	atLeast  time.Duration // for which the locks are held from the grant on
}

// defaultGrace is between SIGTERM and SIGKILL, unless less is left of the lease.
const defaultGrace = 2 * time.Second

func (s *supervision) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Var(
		&s.onLost, "on-lost",
		"`what` the command gets when the lock is lost: term, kill, another signal such as INT, or ignore",
	)
	flags.Var(
		&s.onWanted, "on-wanted",
		"`what` the command gets when somebody waits for the lock who cannot have it meanwhile: a signal such as "+
			"USR1, or ignore",
	)
	flags.Var(
		&s.onUncertain, "on-uncertain",
		"`what` the command gets when the lock could not be renewed, and less than a third of the lease is left",
	)
	flags.DurationVar(
		&s.grace, "grace", defaultGrace,
		"`time` between that and SIGKILL; at most half of the lease, and by default a third",
	)
	flags.Var(&s.lostCode, "lost-exit-code", "exit `code` if the lock was lost")
	flags.BoolVarP(&s.verbose, "verbose", "v", false, "say who has the lock, how long it took, and what becomes of it")
}

func newSupervision() supervision {
	return supervision{onLost: reactionFlag{syscall.SIGTERM}, lostCode: cli.ExitLost}
}

func (s *supervision) check(cmd *cobra.Command) error {
	s.changed = cmd.Flags().Changed("grace")
	if s.grace < 0 {
		return cli.Usage(cli.Example(cmd, cmd.Flags().Lookup("grace")), "--grace cannot be negative, not %v", s.grace)
	}
	if cmd.Flags().Changed("at-least") && lockagent.CheckLease(s.atLeast) != nil {
		return cli.Usage(cli.WithFlag(cmd, "--at-least 10m"), "--at-least must be between 1ms and a year, not %v", s.atLeast)
	}
	if s.lostCode != cli.ExitLost {
		return checkCode(cmd, "lost-exit-code", s.lostCode)
	}
	return nil
}

// warned are the flags that have the command warned.
type warned struct{ onWanted, onUncertain reactionFlag }

// any reports whether the command is to be warned of anything.
func (w *warned) any() bool { return w.onWanted.signal != 0 || w.onUncertain.signal != 0 }

// reactionFlag is the value of --on-lost and of the flags beside. The zero signal is for ignore.
type reactionFlag struct{ signal syscall.Signal }

func (f *reactionFlag) String() string {
	if f.signal == 0 {
		return "ignore"
	}
	return strings.ToLower(strings.TrimPrefix(unix.SignalName(f.signal), "SIG"))
}

// Type implements the value of a flag.
func (f *reactionFlag) Type() string { return "reaction" }

// Set implements the value of a flag.
func (f *reactionFlag) Set(text string) error {
	if text == "ignore" {
		f.signal = 0
		return nil
	}
	f.signal = unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(text), "SIG"))
	if f.signal == 0 {
		return errors.New("no such signal")
	}
	return nil
}

// holding has claims, and hears what becomes of them and of this process.
type holding struct {
	*supervision
	stderr  io.Writer
	claims  []*claimed
	news    chan news
	signals chan os.Signal

	granted time.Duration // when the last lock was, by the boot clock
	lost    error         // why the first lock was lost
}

// forwarded are the signals that a command gets as well.
var forwarded = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
	syscall.SIGWINCH,
	syscall.SIGTSTP, syscall.SIGCONT,
}

// ends are the signals that end the wait for a lock.
func ends(s os.Signal) bool {
	switch s {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT:
		return true
	}
	return false
}

func (s *supervision) start(cmd *cobra.Command) *holding {
	h := &holding{supervision: s, stderr: cmd.ErrOrStderr(), news: make(chan news), signals: make(chan os.Signal, 64)}
	for _, s := range cli.Heeded(forwarded...) { // one by one: none at once would be all
		signal.Notify(h.signals, s)
	}
	if cmd.Context().Err() != nil { // somebody was faster
		h.signals <- syscall.SIGTERM
	}
	return h
}

// leave leaves all claims. Those that nobody has inherited end by that.
func (h *holding) leave() {
	signal.Stop(h.signals)
	for _, c := range h.claims {
		c.leave()
	}
}

func (h *holding) say(format string, args ...any) {
	if h.verbose {
		fmt.Fprintf(h.stderr, "lockagent: "+format+"\n", args...)
	}
}

// signalled is the error of a command, or of a wait, that a signal has ended.
type signalled syscall.Signal

func (s signalled) Error() string { return "ended by " + unix.SignalName(syscall.Signal(s)) }

// Is reports whether target is [cli.ErrQuiet]: who sends a signal knows.
func (s signalled) Is(target error) bool { return target == cli.ErrQuiet }

// waitSignal does to a wait what a signal is for. It returns an error if the signal ends the wait.
func waitSignal(s os.Signal) error {
	if ends(s) {
		return signalFailure(s)
	}
	if s == syscall.SIGTSTP {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	}
	return nil
}

// signalFailure is the error of a wait that a signal has ended.
func signalFailure(s os.Signal) error {
	by := s.(syscall.Signal)
	return &cli.Failure{Code: cli.ExitSignal + int(by), Err: signalled(by)}
}

// pass ends this process by the signal, if users send it to end programs. A shell ends a script only if it sees the
// signal itself.
func (s signalled) pass() {
	if by := syscall.Signal(s); by == syscall.SIGINT || by == syscall.SIGTERM {
		signal.Reset(by)
		runtime.LockOSThread() // the signal is for this thread: another one may get it only after the end
		_ = unix.Tgkill(os.Getpid(), unix.Gettid(), by)
	}
}

// take waits for a lock. If it is not to be had, those that were taken are released.
func (h *holding) take(d *client.Daemon, name lockagent.Name, asked opening) error {
	if err := bootclock.Foreign(bootclock.Clock()); err != nil && !asked.detaches { // this process knows no clock
		return h.giveBack(foreign(err))
	}
	c := h.open(d, name, asked)
	var silent <-chan time.Time
	if left := asked.silence(); left >= 0 {
		silent = time.After(left)
	}
	for c.First == 0 {
		select {
		case <-silent:
			return h.giveBack(silentFailure(d, &asked))
		case s := <-h.signals:
			if err := waitSignal(s); err != nil {
				return h.giveBack(err)
			}
		case n := <-h.news:
			h.hear(n)
		}
		switch {
		case h.lost != nil:
			return h.giveBack(h.lostFailure())
		case c.over != nil:
			return h.giveBack(h.refusal(d.Denied(c.over)))
		case c.foreign != nil && !asked.detaches:
			return h.giveBack(foreign(c.foreign))
		}
	}
	h.granted = bootclock.Now()
	h.say("got %s with the token %d after %s", c.shown(), c.First, readable.Duration(c.waited))
	return nil
}

// foreign is the error of a process that would not know when its lock is lost.
func foreign(err error) error {
	return &cli.Failure{
		Code: cli.ExitNoDaemon, Err: fmt.Errorf("the deadlines of the daemon mean nothing to this process: %w", err),
	}
}

// refusal has the exit code of a denial.
func (h *holding) refusal(err error) error {
	if f := client.Refused(err); f != nil {
		return f
	}
	return err
}

// giveBack releases what was taken before err happened.
func (h *holding) giveBack(err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
	defer cancel()
	for _, c := range h.claims {
		if c.First != 0 {
			_ = c.release(ctx, 0) // the end of its stream does it too
		}
	}
	return err
}

// finish releases the locks. A lock that was lost before is one that was lost while the command ran, although nobody
// has heard of it yet.
func (h *holding) finish() {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
	defer cancel()
	for _, c := range h.claims {
		keep := h.granted + h.atLeast - bootclock.Now()
		if h.lost != nil {
			keep = 0
		}
		err := c.release(ctx, keep)
		switch {
		case errors.Is(err, errOver) && h.lost == nil:
			h.lost = err
		case err != nil && ctx.Err() != nil:
			fmt.Fprintf(
				h.stderr,
				"lockagent: the daemon has not confirmed within %v that %s is released; it will release it when it "+
					"runs again\n",
				releaseTime, c.shown(),
			)
		}
	}
}

// shown is the name for a terminal.
func (c *claimed) shown() string { return cli.OneLine(string(c.name)) }

// of is the claim on a lock.
func (h *holding) of(name lockagent.Name) *claimed {
	for _, c := range h.claims {
		if c.name == name {
			return c
		}
	}
	return nil
}

// deadline is until when all locks are held, by the boot clock.
func (h *holding) deadline() time.Duration {
	first := h.claims[0].deadline
	for _, c := range h.claims[1:] {
		first = min(first, c.deadline)
	}
	return first
}

// expired notes the loss of locks whose deadline has passed.
func (h *holding) expired() bool {
	if h.late(bootclock.Now()) && h.lost == nil {
		h.lost = errors.New("the lease has run out")
	}
	return h.lost != nil
}

// late notes which locks are lost because no renewal has come, as it would have to before an instant. It reports
// whether there are any.
func (h *holding) late(at time.Duration) (some bool) {
	for _, c := range h.claims {
		if at >= c.deadline {
			c.late, some = true, true
		}
	}
	return some
}

// lostFailure is the error of a loss.
func (h *holding) lostFailure() error {
	return &cli.Failure{Code: int(h.lostCode), Err: fmt.Errorf("the lock was lost: %s", cli.Plain(h.lost))}
}

// until is a timer for an instant of the boot clock, or for a glance at that clock before it.
func until(at time.Duration) <-chan time.Time {
	return time.After(min(max(at-bootclock.Now(), 0), follow.Glance))
}

// This process was stopped, or starved, if it looks at the clock so much later than it wanted to. What the daemon told
// it meanwhile is heard within catchUpTime.
const (
	tooLate     = 50 * time.Millisecond
	catchUpTime = 100 * time.Millisecond
)

// catchUp hears what the daemon has said while this process was stopped, if it wanted to look at the clock at an
// instant that lies far back. The daemon renews the locks of a process that is stopped. So the last deadline that the
// process has heard of may be over, and the locks are held.
func (h *holding) catchUp(wanted time.Duration) {
	if bootclock.Now()-wanted < tooLate {
		return
	}
	for over := time.After(catchUpTime); ; {
		select {
		case n := <-h.news:
			h.hear(n)
		case <-over:
			return
		}
	}
}

// hold holds the locks without a command.
func (h *holding) hold(cmd *cobra.Command, c *claimed) error {
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\t%d\t%s\n", c.name, c.First, c.handle()); err != nil {
		return h.giveBack(err)
	}
	fmt.Fprintln(h.stderr, "Holding the lock until a signal, or the end of the standard input.")
	input := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, cmd.InOrStdin())
		input <- err
	}()
	for !h.expired() {
		next := h.deadline()
		select {
		case s := <-h.signals:
			if waitSignal(s) != nil {
				return h.held()
			}
		case <-input:
			return h.held()
		case n := <-h.news:
			h.hear(n)
		case <-until(next):
		}
		h.catchUp(next)
	}
	return h.giveBack(h.lostFailure())
}

// held releases the locks, and tells whether they were held until now.
func (h *holding) held() error {
	if h.finish(); h.lost != nil {
		return h.lostFailure()
	}
	return nil
}

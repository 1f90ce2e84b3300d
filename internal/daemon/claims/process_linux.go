package claims

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
)

// process is a process that a claim is bound to. A nil process is none.
//
// A descriptor names the process, not its number. So it is no matter whether the system gives the number to another
// one.
type process struct{ file *os.File }

// badProcess is the error of a request for a process that a claim cannot be bound to.
func badProcess(format string, args ...any) error {
	return &lockagent.OptionError{Option: "for_pid", Reason: fmt.Sprintf(format, args...)}
}

// sameNumbers returns an error unless the numbers of processes mean the same to the client as to us.
func sameNumbers(by Client) error {
	// The process has a number in each PID namespace from ours on, and none if it is in one outside of ours.
	numbers, err := status(by.PID, "NSpid")
	if err != nil {
		return unwatched(by.PID, err)
	}
	if len(numbers) != 1 {
		return badProcess(
			"the client is in another PID namespace than the daemon, as in a container, so numbers of processes mean others " +
				"there; use ttl, and renew the claim",
		)
	}
	return nil
}

// openProcess returns the process with a number. The error is a [*refusal.QuotaError] if this process has no descriptor
// for it.
func openProcess(pid int) (*process, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	switch {
	case errors.Is(err, unix.ESRCH), errors.Is(err, unix.EINVAL):
		return nil, badProcess("there is no process %d; it may have ended already", pid)
	case err != nil:
		return nil, unwatched(pid, err)
	}
	return &process{os.NewFile(uintptr(fd), "process "+strconv.Itoa(pid))}, nil
}

// bind is openProcess for a process of the client's user. If the client is root, it may be of any user. pid may be 0
// for none.
func bind(pid int, by Client) (*process, error) {
	if pid == 0 {
		return nil, nil //nolint:nilnil // a nil process is none
	}
	p, err := openProcess(pid)
	if err != nil {
		return nil, err
	}
	uid, err := userOf(pid)
	switch {
	case p.ended(): // otherwise what was read is not about another process
		err = badProcess("there is no process %d; it has ended", pid)
	case err != nil:
		err = unwatched(pid, err)
	case by.UID != 0 && by.UID != uid:
		err = badProcess("process %d is not of user %d", pid, by.UID)
	default:
		return p, nil
	}
	p.close()
	return nil, err
}

// unwatched is the error of a process that cannot be watched.
func unwatched(pid int, err error) error {
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
		var limit unix.Rlimit
		_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) // it cannot fail
		return &refusal.QuotaError{What: refusal.Files, Limit: int(limit.Cur)}
	}
	return badProcess("process %d cannot be watched: %v", pid, err)
}

// userOf is the real user of a process.
func userOf(pid int) (uint32, error) {
	ids, err := status(pid, "Uid")
	if err != nil {
		return 0, err
	}
	uid, err := strconv.ParseUint(ids[0], 10, 32)
	return uint32(uid), err
}

// status is what a line of the status of a process says. There is at least one word.
func status(pid int, line string) ([]string, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return nil, err
	}
	for l := range strings.Lines(string(text)) {
		if fields := strings.Fields(l); len(fields) > 1 && fields[0] == line+":" {
			return fields[1:], nil
		}
	}
	return nil, fmt.Errorf("process %d: its status has no %s", pid, line)
}

// ended reports whether the process has ended.
func (p *process) ended() (ended bool) {
	raw, err := p.file.SyscallConn()
	return err == nil && raw.Control(func(fd uintptr) { ended = hasEnded(int(fd)) }) == nil && ended
}

func hasEnded(fd int) bool {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		if !errors.Is(err, unix.EINTR) {
			return n > 0
		}
	}
}

// watch calls ended when the process has ended, unless the process is closed before.
func (p *process) watch(ended func()) {
	if p == nil {
		return
	}
	go func() {
		if p.await() {
			ended()
		}
	}()
}

// await waits until the process has ended. It reports false if the process is closed before.
func (p *process) await() (ended bool) {
	raw, err := p.file.SyscallConn()
	return err == nil && raw.Read(func(fd uintptr) bool { return hasEnded(int(fd)) }) == nil
}

func (p *process) close() {
	if p != nil {
		_ = p.file.Close() // also ends watch
	}
}

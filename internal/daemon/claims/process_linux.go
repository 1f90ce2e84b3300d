package claims

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lockagent/lockagent"
)

// process is a process that a claim is bound to. A nil process is none.
//
// A descriptor names the process, not its number. So it is no matter whether the system gives the number to another one.
type process struct{ file *os.File }

// bind returns the process with a number. It must be of the client's user, unless the client is root. pid may be 0 for none.
func bind(pid int, by Client) (*process, error) {
	if pid == 0 {
		return nil, nil //nolint:nilnil // a nil process is none
	}
	wrong := func(format string, args ...any) error {
		return &lockagent.OptionError{Option: "for_pid", Reason: fmt.Sprintf(format, args...)}
	}
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	switch {
	case errors.Is(err, unix.ESRCH), errors.Is(err, unix.EINVAL):
		return nil, wrong("there is no process %d; it may have ended already", pid)
	case err != nil:
		return nil, wrong("process %d cannot be watched: %v", pid, err)
	}
	p := &process{os.NewFile(uintptr(fd), "process "+strconv.Itoa(pid))}
	uid, err := userOf(pid)
	if err != nil || hasEnded(fd) { // what was read is not about another process: this one lives
		p.close()
		return nil, wrong("there is no process %d; it has ended", pid)
	}
	if by.UID != 0 && by.UID != uid {
		p.close()
		return nil, wrong("process %d is not of user %d", pid, by.UID)
	}
	return p, nil
}

// userOf is the real user of a process.
func userOf(pid int) (uint32, error) {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "Uid:" {
			uid, err := strconv.ParseUint(fields[1], 10, 32)
			return uint32(uid), err
		}
	}
	return 0, fmt.Errorf("process %d: its status names no user", pid)
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

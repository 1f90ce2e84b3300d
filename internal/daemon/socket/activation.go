//go:build linux

package socket

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// firstPassed is the first descriptor that systemd passes.
const firstPassed = 3

// Activated returns the socket of a name that systemd listens on for this process, or nil if there is none. The name is
// what the socket unit has as FileDescriptorName. The socket belongs to systemd: no file is removed at the end, and
// clients that connect while no daemon runs wait for the next one.
//
// It takes over all descriptors that were passed, and removes the variables that tell of them, so that child processes
// do not take them for theirs. So call it once.
func Activated(name string) (net.Listener, error) {
	passed, err := passedSockets()
	if err != nil {
		return nil, err
	}
	var found net.Listener
	for _, f := range passed {
		if f.Name() != name || found != nil {
			_ = f.Close()
			continue
		}
		found, err = net.FileListener(f) // has a duplicate
		_ = f.Close()
		if err != nil {
			return nil, fmt.Errorf("socket: the descriptor %q that systemd passed is no socket that listens: %w", name, err)
		}
	}
	unixSocket, ok := found.(*net.UnixListener)
	switch {
	case found == nil && len(passed) > 0:
		return nil, fmt.Errorf(
			"socket: systemd passed no descriptor %q; set FileDescriptorName=%s in the socket unit", name, name,
		)
	case found == nil:
		return nil, nil //nolint:nilnil // nobody activated this process
	case !ok:
		_ = found.Close()
		return nil, fmt.Errorf(
			"socket: the descriptor %q that systemd passed is no Unix socket, but one of %s; set ListenStream to a path", name,
			found.Addr().Network(),
		)
	}
	unixSocket.SetUnlinkOnClose(false)
	return unixSocket, nil
}

// passedSockets returns the descriptors that systemd passed to this process, with their names.
func passedSockets() ([]*os.File, error) {
	pid, count, names := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS"), os.Getenv("LISTEN_FDNAMES")
	if pid != strconv.Itoa(os.Getpid()) {
		return nil, nil // meant for another process, or for nobody
	}
	for _, v := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		_ = os.Unsetenv(v)
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 || n > 1024 {
		return nil, fmt.Errorf("socket: LISTEN_FDS is %q, not a number of descriptors", count)
	}
	called := strings.Split(names, ":")
	files := make([]*os.File, n)
	for i := range files {
		fd, name := firstPassed+i, "unknown" // as systemd calls those without a name
		if i < len(called) && called[i] != "" {
			name = called[i]
		}
		unix.CloseOnExec(fd)
		files[i] = os.NewFile(uintptr(fd), name)
	}
	return files, nil
}

//go:build linux

package socket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Peer is the process that made a connection, as the kernel tells. It is that of the time of the connection: the
// process may have ended, and others may have the connection.
type Peer struct {
	PID      int
	UID, GID uint32
	Groups   []uint32 // all of them, with GID

	// Program is the name of the process, and Started tells it from others with its number: see [Process]. Both are
	// empty if the process had ended already.
	Program string
	Started uint64
}

type peerKey struct{}

// ConnContext adds the peer of a connection to the context of its requests. It is for [net/http.Server.ConnContext].
// If the kernel does not tell the peer, there is none.
func ConnContext(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(*boundConn); ok {
		conn = c.Conn
	}
	if c, ok := conn.(*net.UnixConn); ok {
		if p, err := peerOf(c); err == nil {
			return NewContext(ctx, p)
		}
	}
	return ctx
}

// NewContext adds a peer to a context. It is for connections of another kind than [ConnContext] knows.
func NewContext(ctx context.Context, p Peer) context.Context {
	return context.WithValue(ctx, peerKey{}, p)
}

// FromContext returns the peer of a request. It reports false if the request has none: then nobody may trust it.
func FromContext(ctx context.Context) (Peer, bool) {
	p, ok := ctx.Value(peerKey{}).(Peer)
	return p, ok
}

func peerOf(conn *net.UnixConn) (Peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return Peer{}, err
	}
	var cred *unix.Ucred
	var groups []uint32
	var failed error
	if err := raw.Control(func(fd uintptr) {
		if cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); failed == nil {
			groups, failed = peerGroups(fd)
		}
	}); err != nil {
		return Peer{}, err
	}
	if failed != nil {
		return Peer{}, failed
	}
	p := Peer{PID: int(cred.Pid), UID: cred.Uid, GID: cred.Gid, Groups: append(groups, cred.Gid)}
	p.Program, p.Started, _ = Process(p.PID) // a process that has ended has no name
	return p, nil
}

// User returns the user of the process that made a connection of a Unix socket.
func User(conn net.Conn) (uid uint32, err error) {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, errors.New("socket: it is no connection of a Unix socket")
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var failed error
	if err := raw.Control(
		func(fd uintptr) { cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) },
	); err != nil {
		return 0, err
	}
	if failed != nil {
		return 0, failed
	}
	return cred.Uid, nil
}

// peerGroups are the supplementary groups of a peer.
func peerGroups(fd uintptr) ([]uint32, error) {
	groups := make([]uint32, 32)
	for {
		size := uint32(4 * len(groups))
		_, _, err := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&size)), 0)
		switch {
		case err == 0:
			return groups[:size/4], nil
		case err != unix.ERANGE || len(groups) > 1<<16: // the kernel allows 2^16
			return nil, err
		}
		groups = make([]uint32, max(int(size/4), 2*len(groups)))
	}
}

// Process returns the name of a process, and when it started, in ticks since the boot. The system uses the number of a
// process again, but not so soon. So number and start together name a process for one boot.
func Process(pid int) (program string, started uint64, err error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", 0, err
	}
	// The name is in brackets, and may have brackets and blanks itself. The start is the 20th field after it.
	stat := string(text)
	open, end := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return "", 0, fmt.Errorf("socket: process %d: the system tells %.64q", pid, stat)
	}
	program = stat[open+1 : end]
	const start = 19
	fields := strings.Fields(stat[end+1:])
	if len(fields) <= start {
		return "", 0, fmt.Errorf("socket: process %d: the system tells %.64q", pid, stat)
	}
	started, err = strconv.ParseUint(fields[start], 10, 64)
	return program, started, err
}

//go:build linux

package tcppeer

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrUnknown is returned if no user of this host is known to be at the other end of a connection.
var ErrUnknown = errors.New("tcppeer: the system does not tell which user of this host has made the connection")

// User returns the user at the other end of a connection that this process has accepted.
//
// The list of the kernel is no snapshot, and it says that root has a socket which nobody has any more. So a client that closes its
// socket could be taken for root. Therefore User reads the list twice. If the socket still is
// somebody's the second time, and still at the other end of conn, it was so the first time.
func User(conn net.Conn) (uid uint32, err error) {
	remote, local, own, err := ends(conn)
	if err != nil {
		return 0, err
	}
	before, err := find(remote, local, own)
	if err != nil {
		return 0, err
	}
	after, err := find(remote, local, own)
	if err != nil {
		return 0, err
	}
	if before != after {
		return 0, ErrUnknown
	}
	return before.uid, nil
}

// ends returns the addresses of a connection, and the inode of our socket.
func ends(conn net.Conn) (remote, local netip.AddrPort, inode uint64, err error) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return remote, local, 0, fmt.Errorf("%w: it is no TCP", ErrUnknown)
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return remote, local, 0, err
	}
	var stat unix.Stat_t
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = unix.Fstat(int(fd), &stat) }); err != nil {
		return remote, local, 0, err
	}
	return address(tcp.RemoteAddr()), address(tcp.LocalAddr()), stat.Ino, failed
}

// address is one as the list has it: without a zone, and IPv4 as such.
func address(a net.Addr) netip.AddrPort {
	at := a.(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port())
}

// entry is what the list says of a socket.
type entry struct {
	uid   uint32
	inode uint64
}

// established is the state of a connection that neither end has closed.
const established = "01"

// find returns the socket at the other end of a connection. own is the inode of the socket at this end. As long as the list has it, no
// other connection has these two addresses.
func find(remote, local netip.AddrPort, own uint64) (other entry, err error) {
	var ours entry
	for _, list := range []string{"/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"} {
		file, err := os.Open(list)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a host without IPv6
		}
		if err != nil {
			return other, fmt.Errorf("%w: %w", ErrUnknown, err)
		}
		err = sockets(file, func(from, to netip.AddrPort, e entry) {
			switch {
			case from == remote && to == local:
				other = e
			case from == local && to == remote:
				ours = e
			}
		})
		if err := errors.Join(err, file.Close()); err != nil {
			return other, fmt.Errorf("%w: %w", ErrUnknown, err)
		}
	}
	if ours.inode != own || other.inode == 0 {
		return other, ErrUnknown
	}
	return other, nil
}

// sockets visits the established connections of a list in the format of proc(5), net/tcp.
func sockets(list io.Reader, visit func(from, to netip.AddrPort, e entry)) error {
	lines := bufio.NewScanner(list)
	lines.Scan() // the names of the columns
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		const fromAt, toAt, stateAt, uidAt, inodeAt = 1, 2, 3, 7, 9
		if len(f) <= inodeAt {
			return fmt.Errorf("the list of sockets has the line %.200q", lines.Text())
		}
		if f[stateAt] != established {
			continue
		}
		from, err1 := parse(f[fromAt])
		to, err2 := parse(f[toAt])
		uid, err3 := strconv.ParseUint(f[uidAt], 10, 32)
		inode, err4 := strconv.ParseUint(f[inodeAt], 10, 64)
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			return fmt.Errorf("the list of sockets has the line %.200q: %w", lines.Text(), err)
		}
		visit(from, to, entry{uint32(uid), inode})
	}
	return lines.Err()
}

// parse reads an address of the list, such as 0100007F:1F90: words in the byte order of the machine, and a port.
func parse(text string) (netip.AddrPort, error) {
	host, port, _ := strings.Cut(text, ":")
	b, err := hex.DecodeString(host)
	if err != nil {
		return netip.AddrPort{}, err
	}
	for i := 0; i+4 <= len(b); i += 4 {
		binary.BigEndian.PutUint32(b[i:], binary.NativeEndian.Uint32(b[i:]))
	}
	addr, ok := netip.AddrFromSlice(b)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("%q is no address", text)
	}
	n, err := strconv.ParseUint(port, 16, 16)
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), err
}

//go:build linux

package tcppeer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// ErrUnknown is returned if no user of this host is known to be at the other end of a connection.
var ErrUnknown = errors.New("tcppeer: the system does not tell which user of this host has made the connection")

// User returns the user at the other end of a connection that this process has accepted. It asks the kernel, which
// looks up three sockets by their addresses: however many connections there are, that takes some microseconds.
//
// The kernel says that root has a socket which nobody has any more. So a client that closes its socket could be taken
// for root. Therefore User asks twice. If the socket still is somebody's the second time, and still at the other end
// of conn, it was so the first time.
func User(conn net.Conn) (uid uint32, err error) {
	remote, local, own, err := ends(conn)
	if err != nil {
		return 0, err
	}
	k, err := openKernel()
	if err != nil {
		return 0, err
	}
	defer k.close()
	before, err := k.find(remote, local, own)
	if err != nil {
		return 0, err
	}
	after, err := k.find(remote, local, own)
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

// address is one as the kernel knows it: without a zone, and IPv4 as such.
func address(a net.Addr) netip.AddrPort {
	at := a.(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port())
}

// entry is what the kernel says of a socket.
type entry struct {
	uid   uint32
	inode uint64
}

// kernel answers questions about sockets, by sock_diag(7).
type kernel int // a descriptor

func openKernel() (kernel, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return 0, fmt.Errorf("%w: the kernel cannot be asked: %w", ErrUnknown, err)
	}
	return kernel(fd), nil
}

func (k kernel) close() { _ = unix.Close(int(k)) }

// find returns the socket at the other end of a connection. own is the inode of the socket at this end. As long as
// the kernel has that one, no other connection has these two addresses.
func (k kernel) find(remote, local netip.AddrPort, own uint64) (other entry, err error) {
	other, err = k.lookUp(remote, local)
	if err != nil {
		return other, err
	}
	ours, err := k.lookUp(local, remote)
	if err != nil {
		return other, err
	}
	if ours.inode != own || other.inode == 0 {
		return other, ErrUnknown
	}
	return other, nil
}

// The messages, as linux/netlink.h and linux/inet_diag.h have them.
type (
	question struct {
		Header                        unix.NlMsghdr
		Family, Protocol, Ext, Unused uint8
		States                        uint32
		ID                            sockets
	}
	answer struct {
		Family, State, Timer, Retrans  uint8
		ID                             sockets
		Expires, Received, Unsent, UID uint32
		Inode                          uint32
	}
	sockets struct {
		FromPort, ToPort [2]byte
		From, To         [16]byte
		Device           uint32
		Cookie           [2]uint32
	}
)

const (
	established = 1 // the state of a connection that neither end has closed
	allStates   = 1<<12 - 1
	loopback    = 1 // the device of all connections within a host: any user may bind a socket to it
)

// lookUp returns the established socket that has these two addresses.
func (k kernel) lookUp(from, to netip.AddrPort) (entry, error) {
	q := question{Family: unix.AF_INET, Protocol: unix.IPPROTO_TCP, States: allStates, ID: idOf(from, to)}
	if from.Addr().Is6() {
		q.Family = unix.AF_INET6
	}
	q.Header = unix.NlMsghdr{Len: uint32(binary.Size(q)), Type: unix.SOCK_DIAG_BY_FAMILY, Flags: unix.NLM_F_REQUEST}
	asked, err := binary.Append(nil, binary.NativeEndian, &q)
	if err != nil {
		return entry{}, err
	}
	if err := unix.Sendto(int(k), asked, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return entry{}, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	said := make([]byte, 4096)
	n, who, err := unix.Recvfrom(int(k), said, unix.MSG_DONTWAIT) // the kernel has answered when it has the question
	if err != nil {
		return entry{}, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	if sender, ok := who.(*unix.SockaddrNetlink); !ok || sender.Pid != 0 {
		return entry{}, fmt.Errorf("%w: somebody else than the kernel answers", ErrUnknown)
	}
	return read(said[:n], q.ID)
}

// read reads an answer. The kernel may know a socket that only listens, or one that has ended: those are none.
func read(said []byte, asked sockets) (entry, error) {
	var header unix.NlMsghdr
	var a answer
	n, err := binary.Decode(said, binary.NativeEndian, &header)
	if err != nil || header.Type != unix.SOCK_DIAG_BY_FAMILY { // it may say that there is no such socket
		return entry{}, ErrUnknown
	}
	if _, err := binary.Decode(said[n:], binary.NativeEndian, &a); err != nil {
		return entry{}, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	if a.State != established || a.ID.FromPort != asked.FromPort || a.ID.ToPort != asked.ToPort {
		return entry{}, ErrUnknown
	}
	return entry{a.UID, uint64(a.Inode)}, nil
}

// idOf is how the kernel calls the socket that has these two addresses. Ports and addresses are in the order of the
// network.
func idOf(from, to netip.AddrPort) sockets {
	var id sockets
	for _, end := range []struct {
		at   netip.AddrPort
		port *[2]byte
		addr *[16]byte
	}{{from, &id.FromPort, &id.From}, {to, &id.ToPort, &id.To}} {
		binary.BigEndian.PutUint16(end.port[:], end.at.Port())
		copy(end.addr[:], end.at.Addr().AsSlice())
	}
	id.Device = loopback
	id.Cookie = [2]uint32{^uint32(0), ^uint32(0)} // any
	return id
}

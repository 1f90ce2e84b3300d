//go:build linux

package daemon

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/lockagent/lockagent/internal/waittest"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// What a claim costs that has a connection of its own, each on another lock. Most of that is of net/http: the stacks of
// its two goroutines, and its buffers. The clients of this test keep nothing but their connections.
func TestMemoryOfAClaim(t *testing.T) {
	const claims, most = 500, 48_000
	d := run(t)
	acquire := func(i int) net.Conn {
		conn, err := net.Dial("unix", d.path)
		if err != nil {
			t.Fatal(err)
		}
		message, err := proto.Marshal(&lockagentv1.AcquireRequest{Name: fmt.Sprint("door/", i)})
		if err != nil {
			t.Fatal(err)
		}
		request := fmt.Appendf(
			nil,
			"POST /lockagent.v1.LockService/Acquire HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"+
				"Content-Type: application/connect+proto\r\nContent-Length: %d\r\n\r\n\x00",
			5+len(message),
		)
		request = append(binary.BigEndian.AppendUint32(request, uint32(len(message))), message...)
		if _, err := conn.Write(request); err != nil {
			t.Fatal(err)
		}
		var answer [1024]byte
		for n := 0; !bytes.Contains(answer[:n], []byte("-7")); { // part of the id of the claim
			more, err := conn.Read(answer[n:])
			if err != nil {
				t.Fatalf("%v after %q", err, answer[:n])
			}
			n += more
		}
		return conn
	}
	conns := []io.Closer{acquire(-1)} // which makes what all share
	before := memory()
	for i := range claims {
		conns = append(conns, acquire(i))
	}
	if n := d.Counts().Held; n != claims+1 {
		t.Errorf("%d claims are held", n)
	}
	waittest.Until(t, fmt.Sprintf("a claim with its connection needs no more than %d bytes", most), func() bool {
		return memory() < before+claims*most
	})
	for _, c := range conns {
		_ = c.Close()
	}
	if left := d.book.Await(background); left != 0 {
		t.Errorf("%d claims are left", left)
	}
}

//go:build linux

package daemon

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/claims"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// A user has a bounded number of requests under way, also of those whose rest does not come. Other users go on, and so
// does this one when its requests have ended.
func TestRequestsUnderWayAreLimited(t *testing.T) {
	const most, beyond = 64 + 1024, 64 // the streams of the fuzzer and the calls beside them
	synctest.Test(t, func(t *testing.T) {
		b := besiege(t)
		var refused atomic.Int32
		for i := range most + beyond {
			path, kind := lockagentv1connect.LockServiceAcquireProcedure, "connect+json"
			if i%2 == 0 {
				path, kind = lockagentv1connect.LockServiceReleaseProcedure, "json"
			}
			conn := b.mute(
				fmt.Appendf(
					nil, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/%s\r\nContent-Length: 10\r\n\r\n", path, kind,
				),
			)
			go func() {
				said, _ := io.ReadAll(conn)
				if bytes.Contains(said, fmt.Appendf(nil, "the user has %d requests", most)) {
					refused.Add(1)
				}
			}()
		}
		synctest.Wait()
		b.others()
		time.Sleep(2 * defaultRead)
		synctest.Wait()
		if n := refused.Load(); n != beyond {
			t.Errorf("%d requests are refused, want %d", n, beyond)
		}
		a, p := b.client(fuzzerUID), procedureOf(lockagentv1connect.LockServiceAcquireProcedure)
		c := a.post(overHTTP2, p, bytes.NewReader(overHTTP2.body(p, &lockagentv1.AcquireRequest{Name: "mine/door"})))
		synctest.Wait()
		if said := c.beginning(); !bytes.Contains(said, []byte("mine/door")) {
			t.Errorf("when all have ended, a request gets %q", said)
		}
		a.end()
		b.gone()
		b.shut()
	})
}

// One connection of HTTP/2 has about a thousand streams. A client that obeys opens another one for more.
func TestStreamsOfAConnectionAreLimited(t *testing.T) {
	const most, maxConcurrentStreams = 1024, 3
	d := run(t)
	conn, err := dialer(d.path)(background, "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil {
		t.Fatal(err)
	}
	settings := make([]byte, 9)
	if _, err := io.ReadFull(conn, settings); err != nil {
		t.Fatal(err)
	}
	settings = make([]byte, int(settings[1])<<8|int(settings[2]))
	if _, err := io.ReadFull(conn, settings); err != nil {
		t.Fatal(err)
	}
	for ; len(settings) >= 6; settings = settings[6:] {
		if binary.BigEndian.Uint16(settings) == maxConcurrentStreams {
			if n := binary.BigEndian.Uint32(settings[2:]); n > most {
				t.Errorf("the daemon allows %d streams", n)
			}
			return
		}
	}
	t.Error("the daemon does not say how many streams it allows")
}

// Lists that nobody reads are bounded for each user.
func TestListsAreLimited(t *testing.T) {
	const most = 32
	synctest.Test(t, func(t *testing.T) {
		b := unlimited(t)
		for i := range 100 { // so that the answer does not fit into the buffers of the connection
			s, err := b.d.book.Acquire(claims.Request{
				Client: claims.Client{PID: 1 << 30, UID: victimUID}, Name: lockagent.Name(fmt.Sprint("theirs/", i)),
			})
			b.must(err)
			defer s.Close()
		}
		list := procedureOf(lockagentv1connect.LookServiceListProcedure)
		request := fmt.Appendf(
			nil, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", list.path,
		)
		var mute []net.Conn
		for range most {
			mute = append(mute, b.mute(request))
		}
		synctest.Wait()
		a := b.client(fuzzerUID)
		says := func(path, want string) {
			t.Helper()
			p := procedureOf(path)
			c := a.post(protocols[0], p, strings.NewReader("{}"))
			synctest.Wait()
			if said := c.beginning(); !bytes.Contains(said, []byte(want)) {
				t.Errorf("it gets %q, want %s", said, want)
			}
		}
		says(list.path, fmt.Sprintf("the user has %d lists of locks", most))
		says(lockagentv1connect.LookServiceGetProcedure, "bad name") // no list
		b.must(mute[0].Close())
		synctest.Wait()
		says(list.path, "theirs/0")
		for _, conn := range mute {
			_ = conn.Close()
		}
		a.end()
		b.gone()
		b.shut()
	})
}

// A page ends when it is large, and the next one goes on.
func TestPagesAreLimited(t *testing.T) {
	const locks, full = 400, 1 << 20
	d := run(t)
	labels := make(map[string]string)
	for i := range claims.MaxLabels {
		labels[fmt.Sprint(i)] = strings.Repeat("x", claims.MaxLabelLen)
	}
	var want []string
	for i := range locks {
		name := fmt.Sprintf("door/%03d", i)
		s, err := d.book.Acquire(claims.Request{
			Client: claims.Client{PID: 1 << 30}, Name: lockagent.Name(name), Labels: labels,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		want = append(want, name)
	}
	c := d.client(t)
	var got []string
	for req := (&lockagentv1.ListRequest{PageSize: 10_000}); ; {
		page, err := c.look.List(background, req)
		if err != nil {
			t.Fatal(err)
		}
		if n := proto.Size(page); n > full+full/10 {
			t.Errorf("a page has %d bytes", n)
		}
		for _, l := range page.GetLocks() {
			got = append(got, l.GetName())
		}
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the pages have %d locks: %v", len(got), got)
	}
}

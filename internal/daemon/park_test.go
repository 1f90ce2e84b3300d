//go:build linux

package daemon

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/lockagent/lockagent/internal/daemon/claims"
	"github.com/lockagent/lockagent/internal/waittest"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// alone is a client that makes a connection for each call.
func (r *running) alone(t testing.TB, options ...connect.ClientOption) *testClient {
	h := httpClient(t, r.path, 1)
	h.Transport.(*http.Transport).DisableKeepAlives = true
	c := clientOver(h, options...)
	c.alone = true
	return c
}

// soonParked parks streams at once.
func soonParked(cfg *Config) { cfg.Quiet = time.Millisecond }

// awaitParked waits until so many streams are parked, in all daemons of this process.
func awaitParked(t *testing.T, want int) {
	t.Helper()
	waittest.Until(t, fmt.Sprint("so many streams are parked: ", want), func() bool {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return strings.Count(string(stacks), ".(*parkedStream).watch(") == want
	})
}

// A stream that was parked tells all that follows, and ends in order, whoever ends it.
func TestAParkedStreamGoesOn(t *testing.T) {
	for name, options := range map[string][]connect.ClientOption{"binary": nil, "JSON": {connect.WithProtoJSON()}} {
		t.Run(name, func(t *testing.T) {
			d := run(t, soonParked)
			c := d.alone(t, options...)
			var streams []*stream
			for range 5 {
				streams = append(streams, c.acquire(t, &lockagentv1.AcquireRequest{Name: "door"}))
				awaitParked(t, len(streams))
			}
			holder, next, third, fourth, last := streams[0], streams[1], streams[2], streams[3], streams[4]
			g := holder.granted()
			if _, err := c.Release(background, &lockagentv1.ReleaseRequest{Claim: g.GetClaim(), Secret: g.GetSecret()}); err != nil {
				t.Fatal(err)
			}
			if e := holder.ended(); e.GetReleased() == nil {
				t.Errorf("released: %v", e)
			}
			h := next.granted()
			if h.GetToken() <= g.GetToken() {
				t.Errorf("%v after %v", h, g)
			}
			next.end() // as a client does that goes away
			k := third.granted()
			awaitParked(t, 3)
			again := c.attach(t, k.GetClaim(), k.GetSecret())
			if e := again.granted(); e.GetToken() != k.GetToken() || e.GetLock() != "door" || k.GetLock() != "door" {
				t.Errorf("attached: %v, and before %v", e, k)
			}
			if third.events.Receive() || third.events.Err() != nil && !errors.Is(third.events.Err(), io.EOF) {
				t.Errorf("another stream has the claim: %v, %v", third.events.Msg(), third.events.Err())
			}
			again.end()
			fourth.granted()
			d.book.Drain(time.Minute)
			for last.queued(); last.next().GetDraining() == nil; {
			}
			awaitParked(t, 2)
			if n := d.Counts(); n != (claims.Counts{Held: 1, Waiting: 1}) {
				t.Errorf("%+v", n)
			}
		})
	}
}

// A stream whose client may make other requests on the connection stays with the server.
func TestOtherStreamsAreNotParked(t *testing.T) {
	d := run(t, soonParked)
	p := d.process(t, "client")
	p.says("Granted")
	c := d.alone(t)
	waiter := c.acquire(t, door)
	waiter.queued()
	awaitParked(t, 1) // and not that of the holder, which was first
	p.die()
	waiter.granted()
}

// A client that goes on to speak keeps nobody busy with reading what it says.
func TestAParkedStreamEndsWhenItsClientSpeaks(t *testing.T) {
	d := run(t, soonParked)
	conn, err := net.Dial("unix", d.path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	m := frame(0, marshal(&lockagentv1.AcquireRequest{Name: "door"}))
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/connect+proto\r\nContent-Length: %d\r\n\r\n%s",
		lockagentv1connect.LockServiceAcquireProcedure, len(m), m); err != nil {
		t.Fatal(err)
	}
	awaitParked(t, 1)
	if n := d.Counts(); n != (claims.Counts{Held: 1}) {
		t.Errorf("%+v", n)
	}
	if _, err := io.WriteString(conn, "x"); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the claim ends", func() bool { return d.Counts() == claims.Counts{} })
	awaitParked(t, 0)
	if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}
}

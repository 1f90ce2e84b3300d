//go:build linux

package daemon

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/access"
	"github.com/lockagent/lockagent/internal/daemon/claims"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// unlimited is without the limits of the fuzzer: what is bounded here is bounded for everybody.
func unlimited(t *testing.T) *besieged {
	b := besiege(t)
	pattern, err := access.ParsePattern("**")
	b.must(err)
	b.must(
		b.rules.Replace([]access.Rule{{Match: pattern, Allow: access.Acquire | access.Look | access.Watch}}, access.Limits{}),
	)
	return b
}

// others checks that another user gets a lock, and gives it back.
func (b *besieged) others() {
	b.t.Helper()
	s, err := b.d.book.Acquire(claims.Request{Client: claims.Client{PID: 1 << 30, UID: victimUID}, Name: "theirs/lamp"})
	b.must(err)
	synctest.Wait()
	if g, ok := b.take(s).(claims.Granted); !ok {
		b.t.Errorf("another user got %+v", g)
	}
	s.Close()
	synctest.Wait()
	b.unhurt()
}

// acquires is a message that asks for locks, each with the number of its name.
func acquires(from, n int) *lockagentv1.SubmitRequest {
	m := &lockagentv1.SubmitRequest{}
	for i := from; i < from+n; i++ {
		m.Commands = append(
			m.Commands,
			acquireAs(uint64(i), &lockagentv1.AcquireRequest{Name: fmt.Sprint("mine/", i), Lease: durationpb.New(time.Hour)}),
		)
	}
	return m
}

// A client may ask for extensions faster than the store answers. Then the daemon reads no further.
func TestExtensionsThatTheStoreDoesNotAnswer(t *testing.T) {
	const messages, each = 10, 1000
	synctest.Test(t, func(t *testing.T) {
		b := unlimited(t)
		a := b.client(fuzzerUID)
		a.open()
		synctest.Wait()
		first := acquires(1, 1)
		first.Link = a.linkID()
		a.submits(first)
		synctest.Wait()
		goOn := b.store.Hang()
		before := runtime.NumGoroutine()
		extensions := &lockagentv1.SubmitRequest{}
		for range each {
			extensions.Commands = append(extensions.Commands, &lockagentv1.Command{
				Ref: 1, Command: &lockagentv1.Command_Extend{Extend: &lockagentv1.Extend{Lease: durationpb.New(2 * time.Hour)}},
			})
		}
		message, sent := frame(0, marshal(extensions)), make(chan struct{})
		go func() {
			defer close(sent)
			for range messages {
				if _, err := a.submit.Write(message); err != nil {
					return
				}
			}
		}()
		synctest.Wait()
		if n := runtime.NumGoroutine() - before; n > messages*each*3/4 {
			t.Errorf("%d goroutines for %d extensions", n, messages*each)
		}
		goOn()
		<-sent // now the daemon reads on
		synctest.Wait()
		b.others()
		a.end()
		b.gone()
		b.shut()
	})
}

// mute is a client that has sent a request, and reads nothing of the answer.
func (b *besieged) mute(request []byte) net.Conn {
	conn := b.dial(fuzzerUID)
	go func() { _, _ = conn.Write(request) }()
	return conn
}

// Clients that do not read cost a bounded amount of memory, however much happens, and keep nobody from anything.
func TestClientsThatDoNotRead(t *testing.T) { clientsDoNotRead(t, 15, 6_000, 8<<20) }

// clientsDoNotRead has so many clients of each kind not read while so many locks change. All of them may cost the
// daemon so many bytes at most.
func clientsDoNotRead(t *testing.T, readers, changes, most int) {
	synctest.Test(t, func(t *testing.T) {
		b := unlimited(t)
		request := func(path, kind string, m []byte, headers ...string) []byte {
			more := strings.Join(append(headers, ""), "\r\n")
			return fmt.Appendf(
				nil, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/%s\r\n%sContent-Length: %d\r\n\r\n%s", path, kind,
				more, len(m), m,
			)
		}
		// left reads what comes in a second, and then nothing more: nobody hears of the renewals.
		left := func(request []byte) net.Conn {
			conn := b.mute(request)
			b.must(conn.SetReadDeadline(time.Now().Add(time.Second)))
			go func() { _, _ = io.Copy(io.Discard, conn) }()
			return conn
		}
		var conns []net.Conn
		for i := range readers {
			conns = append(conns,
				b.mute(request(lockagentv1connect.LookServiceWatchProcedure, "connect+proto", frame(0, nil))),
				b.mute(
					request(
						lockagentv1connect.LockServiceAcquireProcedure, "connect+proto",
						frame(0, marshal(&lockagentv1.AcquireRequest{Name: fmt.Sprint("mine/mute/", i)})),
					),
				),
				b.mute(request(lockagentv1connect.LookServiceListProcedure, "json", []byte("{}"))),
				left(
					request(
						lockagentv1connect.LockServiceAcquireProcedure, "connect+proto",
						frame(0, marshal(&lockagentv1.AcquireRequest{Name: fmt.Sprint("mine/left/", i)})), "Connection: close",
					),
				),
			)
		}
		synctest.Wait()
		before := int(memory())
		for i := range changes {
			s, err := b.d.book.Acquire(claims.Request{
				Client: claims.Client{PID: 1 << 30, UID: victimUID}, Name: lockagent.Name(fmt.Sprint("theirs/", i)),
			})
			b.must(err)
			s.Close()
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		goroutines := runtime.NumGoroutine()
		time.Sleep(10 * time.Minute) // and their claims are renewed
		synctest.Wait()
		if more := runtime.NumGoroutine() - goroutines; more > len(conns)/2 {
			t.Errorf("%d goroutines more after 10 minutes", more)
		}
		if used := int(memory()) - before; used > most {
			t.Errorf("%d bytes for %d clients that do not read", used, len(conns))
		}
		b.others()
		for _, c := range conns {
			_ = c.Close()
		}
		b.gone()
		b.shut()
	})
}

// A client that is refused may never read why. Nothing of its requests is left in time.
func TestRefusedClientsThatDoNotRead(t *testing.T) {
	const refused, lists = 100, 32
	list := lockagentv1connect.LookServiceListProcedure
	for what, ask := range map[string]func(b *besieged){
		"of HTTP/1.1": func(b *besieged) {
			for range refused {
				b.mute(
					fmt.Appendf(
						nil, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", list,
					),
				)
			}
		},
		// They read frames, so the connection goes on, and give no window for the answers.
		"of HTTP/2": func(b *besieged) {
			const noWindow = "\x00\x00\x06\x04\x00\x00\x00\x00\x00" + "\x00\x04\x00\x00\x00\x00"
			var head []byte
			for _, h := range [][2]string{
				{":method", "POST"},
				{":scheme", "http"},
				{":path", list},
				{":authority", "x"},
				{"content-type", "application/json"},
			} {
				head = append(append(head, 0, byte(len(h[0]))), h[0]...) // as it is, and not indexed
				head = append(append(head, byte(len(h[1]))), h[1]...)
			}
			said := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + noWindow)
			for i := range refused {
				said = append(said, 0, 0, byte(len(head)), 1, 5, 0, 0, 0, byte(1+2*i)) // these headers are all of the request
				said = append(said, head...)
			}
			conn := b.mute(said)
			go func() { _, _ = io.Copy(io.Discard, conn) }()
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := besiege(t)
				time.Sleep(time.Minute) // the streams of the victim are quiet
				synctest.Wait()
				before := runtime.NumGoroutine()
				for range lists { // that there may be
					b.mute(
						fmt.Appendf(
							nil, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n", list,
						),
					)
				}
				synctest.Wait()
				asked := runtime.NumGoroutine()
				ask(b)
				synctest.Wait()
				if all := b.rules.Refusals(); len(all) != 1 || all[0].Count != refused {
					t.Fatalf("the refusals are %v, want %d", all, refused)
				}
				if waits := runtime.NumGoroutine() - asked; waits < refused {
					t.Fatalf("%d goroutines answer %d requests: some of the answers were read", waits, refused)
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if left := runtime.NumGoroutine() - before; left > refused/10 {
					t.Errorf("%d goroutines are left of %d requests", left, refused)
				}
				b.others()
				b.gone()
				b.shut()
			})
		})
	}
}

// A link whose client does not read stops its own client, and nobody else. All of its claims end with it.
func TestALinkThatIsNotRead(t *testing.T) {
	const wanted, most = 12_000, 10_000
	synctest.Test(t, func(t *testing.T) {
		b := unlimited(t)
		a := b.client(fuzzerUID)
		a.deaf = true
		a.open()
		synctest.Wait()
		var sent atomic.Int64
		link := a.linkID()
		body, submit := io.Pipe()
		a.post(overHTTP2, procedureOf(lockagentv1connect.LockServiceSubmitProcedure), body)
		go func() {
			for i := range wanted / 100 {
				m := acquires(1+100*i, 100)
				m.Link = link
				if _, err := submit.Write(frame(0, marshal(m))); err != nil {
					return
				}
				sent.Add(100)
			}
		}()
		synctest.Wait()
		n := b.d.Counts()
		t.Logf("%d claims were sent, and the daemon has %+v", sent.Load(), n)
		if n.Held+n.Waiting == 0 || n.Held+n.Waiting > most {
			t.Errorf("the daemon has %+v", n)
		}
		b.others()
		_ = submit.CloseWithError(io.ErrUnexpectedEOF)
		a.end()
		b.gone()
		b.shut()
	})
}

// Connections that say half of something, and then nothing more, are ended by the daemon in time. What a client has
// ended to send is over: nobody is told anything who cannot ask.
func TestHalfOpenConnections(t *testing.T) {
	const preface, settings = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	const head = " HTTP/1.1\r\nHost: x\r\nContent-Type: application/"
	for what, said := range map[string]string{
		"nothing":       "",
		"half a line":   "POST /lockag",
		"half a header": "POST /lockagent.v1.LockService/Release HTTP/1.1\r\nHost",
		"half a body":   "POST /lockagent.v1.LockService/Release" + head + "json\r\nContent-Length: 10\r\n\r\n{",
		"half a stream": "POST /lockagent.v1.LockService/Acquire" + head +
			"connect+json\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n\x00",
		"half a preface":      preface[:10],
		"a preface":           preface,
		"settings":            preface + settings,
		"half a frame":        preface + settings + "\x00\x00\x10\x01",
		"half of the headers": preface + settings + "\x00\x00\x01\x01\x00\x00\x00\x00\x01\x83",
		"an answered request": "POST /lockagent.v1.LookService/List" + head + "json\r\nContent-Length: 2\r\n\r\n{}",
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := besiege(t)
				conn := b.mute([]byte(said))
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					_, _ = io.Copy(io.Discard, conn)
				}()
				time.Sleep(idleTime + 2*defaultRead)
				select {
				case <-ended:
				default:
					t.Error("the connection goes on")
				}
				_ = conn.Close()
				b.unharmed()
				b.end()
			})
		})
	}
}

// A Submit that never says to which link it belongs is over in time.
func TestSubmitOfNoLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := besiege(t)
		a := b.client(fuzzerUID)
		body, submit := io.Pipe()
		c := a.post(overHTTP2, procedureOf(lockagentv1connect.LockServiceSubmitProcedure), body)
		time.Sleep(2 * defaultRead)
		synctest.Wait()
		if said := c.beginning(); !bytes.Contains(said, []byte("error")) {
			t.Errorf("after its time it says %q", said)
		}
		_ = submit.Close()
		a.end()
		b.end()
	})
}

// A client that ends its half of the connection has ended: also if it still listens.
func TestHalfClosedConnections(t *testing.T) {
	d := run(t)
	c := d.client(t)
	for i := range 3 {
		name := fmt.Sprint("door/", i)
		conn, err := net.Dial("unix", d.path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		m := frame(0, marshal(&lockagentv1.AcquireRequest{Name: name}))
		if _, err := fmt.Fprintf(
			conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/connect+proto\r\nContent-Length: %d\r\n\r\n%s",
			lockagentv1connect.LockServiceAcquireProcedure, len(m), m,
		); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 4096)
		for n := 0; !strings.Contains(string(answer[:n]), "-7"); { // part of the id of the claim
			more, err := conn.Read(answer[n:])
			if err != nil {
				t.Fatal(err)
			}
			n += more
		}
		next := c.acquire(t, &lockagentv1.AcquireRequest{Name: name})
		next.queued()
		if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		next.granted()
	}
}

// memory is what the heap and the stacks use.
func memory() uint64 {
	runtime.GC()
	runtime.GC() // and what the first one could only put into pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

//go:build linux

package daemon

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/access"
	"github.com/lockagent/lockagent/internal/daemon/claims"
	"github.com/lockagent/lockagent/internal/daemon/socket"
	"github.com/lockagent/lockagent/memstore"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// What a fuzzer may have, and what it meets.
const (
	fuzzerUID, victimUID = 54321, 4242 // nobody runs a process as one of them
	victimLock           = "theirs/door"
	fuzzerLease          = 30 * time.Second
	mostAllocated        = 64 << 20 // bytes for one input, of which most are those of the daemon itself
)

var fuzzerLimits = access.Limits{Claims: 64, Waiters: 32, Streams: 64}

// besieged is a daemon in a bubble of virtual time. The connections are pipes, and so the bubble knows when all is
// quiet. One user attacks it. Another one has a lock, and waits for it as well.
type besieged struct {
	t           testing.TB
	d           *Daemon
	conns       pipes
	store       *memstore.Store
	rules       *access.Access
	held, waits *claims.Stream
	id, next    string // of the claims of the victim
	victim      *fuzzClient
	link        string // of the victim
	token       lockagent.Token
	panicked    atomic.Pointer[string]
	allocated   uint64 // when it began
	shut        func() // ends the daemon
}

// pipes listens for the ends of pipes.
type pipes struct {
	ends   chan net.Conn
	closed chan struct{}
	close  func()
}

func newPipes() pipes {
	p := pipes{ends: make(chan net.Conn), closed: make(chan struct{})}
	p.close = sync.OnceFunc(func() { close(p.closed) })
	return p
}

// Accept implements [net.Listener].
func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.ends:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (p pipes) Close() error {
	p.close()
	return nil
}

// Addr implements [net.Listener].
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// Enabled implements [slog.Handler].
func (b *besieged) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements [slog.Handler]. A panic that was recovered from is in the log.
func (b *besieged) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "panic") {
		text := r.Message
		r.Attrs(func(a slog.Attr) bool {
			text += fmt.Sprintf("\n%s: %v", a.Key, a.Value)
			return true
		})
		b.panicked.CompareAndSwap(nil, &text)
	}
	return nil
}

// WithAttrs implements [slog.Handler].
func (b *besieged) WithAttrs([]slog.Attr) slog.Handler { return b }

// WithGroup implements [slog.Handler].
func (b *besieged) WithGroup(string) slog.Handler { return b }

// besiege starts the daemon. Call end.
func besiege(t testing.TB, changes ...func(*Config)) *besieged {
	b := &besieged{t: t, conns: newPipes(), store: memstore.New()}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.allocated = m.TotalAlloc
	everything, _ := access.ParsePattern("**")
	own, _ := access.ParsePattern("mine/**")
	var err error
	b.rules, err = access.New(access.Config{
		Self: victimUID, Directory: Directory{}, Now: time.Now, Refused: func(uint32, error, uint64) {}, Limits: fuzzerLimits,
		Rules: []access.Rule{
			{Match: own, Allow: access.Acquire | access.Look | access.Watch | access.Operate},
			{Match: everything, Allow: access.Acquire | access.Look | access.Watch},
		},
	})
	b.must(err)
	cfg := Config{Listener: b.conns, Store: b.store, Logger: slog.New(b), Access: b.rules, Lease: fuzzerLease}
	for _, change := range changes {
		change(&cfg)
	}
	b.d, err = Start(cfg)
	b.must(err)
	b.shut = sync.OnceFunc(func() {
		ctx, cancel := context.WithCancel(background)
		cancel()
		if err := errors.Join(b.d.Shutdown(ctx), b.store.Close()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
	t.Cleanup(b.shut)                                                                // if something was wrong
	b.d.server.ConnContext = func(ctx context.Context, c net.Conn) context.Context { // there is no connection yet
		uid := uint32(c.RemoteAddr().(userAddr))
		return socket.NewContext(ctx, socket.Peer{PID: 1 << 30, UID: uid, GID: uid})
	}
	victim := claims.Request{
		Client: claims.Client{PID: 1 << 30, UID: victimUID}, Name: victimLock, Session: "job",
		Secret: strings.Repeat("s", claims.MinSecret),
	}
	b.held, err = b.d.book.Acquire(victim)
	b.must(err)
	victim.Session, victim.Secret = "", ""
	b.waits, err = b.d.book.Acquire(victim)
	b.must(err)
	synctest.Wait()
	granted, _ := b.take(b.held).(claims.Granted)
	queued, _ := b.take(b.waits).(claims.Queued)
	b.id, b.next, b.token = granted.Claim, queued.Claim, granted.Grant.Token()
	if b.token == 0 || b.next == "" {
		t.Fatalf("the victim has %+v and %+v", granted, queued)
	}
	b.victim = b.client(victimUID)
	b.victim.open()
	synctest.Wait()
	if b.link = b.victim.linkID(); b.link == "" {
		t.Fatal("the victim has no link")
	}
	return b
}

func (b *besieged) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *besieged) take(s *claims.Stream) claims.Event {
	b.t.Helper()
	e, err := s.Take()
	b.must(err)
	return e
}

// unharmed checks that nobody has more than the limits allow, and what unhurt checks.
func (b *besieged) unharmed() {
	b.t.Helper()
	if n := b.d.Counts(); n.Held+n.Waiting > fuzzerLimits.Claims+2 || n.Waiting > fuzzerLimits.Waiters+1 {
		b.t.Fatalf("there are more claims than the limits allow: %+v", n)
	}
	b.unhurt()
}

// unhurt checks that the claims of the victim are as they were, and that nothing panicked.
func (b *besieged) unhurt() {
	b.t.Helper()
	if p := b.panicked.Load(); p != nil {
		b.t.Fatal(*p)
	}
	for _, s := range []*claims.Stream{b.held, b.waits} {
		for e := b.take(s); e != nil; e = b.take(s) {
			if _, ok := e.(claims.Renewed); !ok {
				b.t.Fatalf("the victim is told %#v", e)
			}
		}
	}
	l := b.d.book.Lock(victimLock)
	if len(l.Holders) != 1 || l.Holders[0].ID != b.id || l.Holders[0].Token != b.token ||
		l.Holders[0].State != claims.Held ||
		len(l.Waiters) < 1 || l.Waiters[0].ID != b.next || l.Waiters[0].State != claims.Waiting {
		b.t.Fatalf("the lock of the victim is %+v", l)
	}
}

// connOf is a connection of a user.
type connOf struct {
	net.Conn
	uid uint32
}

// RemoteAddr implements [net.Conn].
func (c connOf) RemoteAddr() net.Addr { return userAddr(c.uid) }

// userAddr is a user as the address of a connection.
type userAddr uint32

func (userAddr) Network() string  { return "user" }
func (a userAddr) String() string { return strconv.FormatUint(uint64(a), 10) }

// dial connects a user.
func (b *besieged) dial(uid uint32) net.Conn {
	client, server := net.Pipe()
	b.conns.ends <- connOf{server, uid}
	return client
}

// gone checks that a client which has gone has left nothing but what outlives it.
func (b *besieged) gone() {
	b.t.Helper()
	synctest.Wait()
	locks, _, _ := b.d.book.Locks(background, func(lockagent.Name) bool { return true }, "", 1000)
	for _, l := range locks {
		for _, c := range slices.Concat(l.Holders, l.Waiters) {
			if c.Client.UID == fuzzerUID && !c.Detached {
				b.t.Errorf("a client that has gone has left %+v", c)
			}
		}
	}
}

// end ends the daemon, and checks what it has cost. The link of the victim still works.
func (b *besieged) end() {
	b.t.Helper()
	b.unhurt()
	b.victim.submits(&lockagentv1.SubmitRequest{
		Link: b.link,
		Commands: []*lockagentv1.Command{
			acquireAs(1, &lockagentv1.AcquireRequest{Name: "theirs/desk", Wait: durationpb.New(time.Hour)}),
		},
	})
	synctest.Wait()
	if !bytes.Contains(b.victim.link.beginning(), []byte("-7")) { // part of the id of the new claim
		b.t.Errorf("the link of the victim says %q", b.victim.link.beginning())
	}
	b.victim.end()
	b.shut()
	if p := b.panicked.Load(); p != nil {
		b.t.Fatal(*p)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if n := m.TotalAlloc - b.allocated; n > mostAllocated {
		b.t.Errorf("%d bytes were allocated", n)
	}
}

// procedure is one of the API.
type procedure struct {
	path    string
	input   protoreflect.MessageType
	streams bool
}

var procedures = allProcedures()

func allProcedures() (all []procedure) {
	for _, file := range []protoreflect.FileDescriptor{
		lockagentv1.File_lockagent_v1_lock_proto, lockagentv1.File_lockagent_v1_look_proto,
		lockagentv1.File_lockagent_v1_operate_proto,
		lockagentv1.File_lockagent_v1_count_proto, healthv1.File_grpc_health_v1_health_proto,
	} {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				m := service.Methods().Get(j)
				input, err := protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName())
				if err != nil {
					panic(err)
				}
				all = append(all, procedure{
					fmt.Sprintf("/%s/%s", service.FullName(), m.Name()), input, m.IsStreamingServer() || m.IsStreamingClient(),
				})
			}
		}
	}
	return all
}

func procedureOf(path string) procedure {
	i := slices.IndexFunc(procedures, func(p procedure) bool { return p.path == path })
	return procedures[i]
}

// protocol is how a client talks.
type protocol struct {
	version       int // of HTTP
	unary, stream string
	framed        bool // also what is no stream
	json          bool
}

var protocols = []protocol{
	{1, "application/json", "application/connect+json", false, true},
	{1, "application/proto", "application/connect+proto", false, false},
	{1, "application/grpc-web", "application/grpc-web", true, false},
	{2, "application/json", "application/connect+json", false, true},
	{2, "application/proto", "application/connect+proto", false, false},
	{2, "application/grpc", "application/grpc", true, false},
}

func marshal(m proto.Message) []byte {
	content, _ := proto.Marshal(m) // an error is about text that is not UTF-8, and then there is no content
	return content
}

// frame is a message as streams have it.
func frame(flags byte, message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(message))), message...)
}

// body is that of a call with one message.
func (p protocol) body(of procedure, m proto.Message) []byte {
	content := marshal(m)
	if p.json {
		content, _ = protojson.Marshal(m)
	}
	if of.streams || p.framed {
		content = frame(0, content)
	}
	return content
}

// fuzzClient is a client of the fuzzer, or of its victim.
type fuzzClient struct {
	b      *besieged
	http   map[int]*http.Client // by version
	calls  []*fuzzCall
	link   *fuzzCall      // or nil
	submit *io.PipeWriter // or nil
	deaf   bool           // it reads no more than the first message
	source []byte         // of what it does
}

// fuzzCall is a call.
type fuzzCall struct {
	cancel func()

	mu   sync.Mutex // guards said
	said []byte     // the beginning of the answer
}

func (b *besieged) client(uid uint32) *fuzzClient {
	a := &fuzzClient{b: b, http: make(map[int]*http.Client)}
	for version := 1; version <= 2; version++ {
		var protocols http.Protocols
		protocols.SetHTTP1(version == 1)
		protocols.SetUnencryptedHTTP2(version == 2)
		// It takes little of what it does not read.
		window := &http.HTTP2Config{MaxReceiveBufferPerStream: 1 << 16, MaxReceiveBufferPerConnection: 1 << 16}
		a.http[version] = &http.Client{
			Transport: &http.Transport{
				Protocols: &protocols, HTTP2: window, DisableCompression: true,
				DialContext: func(context.Context, string, string) (net.Conn, error) {
					return b.dial(uid), nil
				},
			},
		}
	}
	return a
}

// end ends all calls and connections, as the death of a process does.
func (a *fuzzClient) end() {
	for _, c := range a.calls {
		c.cancel()
	}
	if a.submit != nil {
		_ = a.submit.CloseWithError(io.ErrUnexpectedEOF)
	}
	synctest.Wait()
	for _, c := range a.http {
		c.CloseIdleConnections()
	}
}

// post begins a call.
func (a *fuzzClient) post(p protocol, of procedure, body io.Reader) *fuzzCall {
	ctx, cancel := context.WithCancel(background)
	c := &fuzzCall{cancel: cancel}
	a.calls = append(a.calls, c)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, baseURL+of.path, body)
	a.b.must(err)
	req.Header.Set("Content-Type", p.unary)
	if of.streams {
		req.Header.Set("Content-Type", p.stream)
	}
	go func() {
		resp, err := a.http[p.version].Do(req)
		if err != nil {
			return
		}
		defer func() { _ = resp.Body.Close() }()
		for part := make([]byte, 4096); err == nil; {
			var n int
			n, err = resp.Body.Read(part)
			c.mu.Lock()
			if len(c.said) < cap(part) {
				c.said = append(c.said, part[:n]...)
			}
			c.mu.Unlock()
			if a.deaf {
				<-ctx.Done()
			}
		}
	}()
	return c
}

// overHTTP2 is the protocol of links.
var overHTTP2 = protocols[4]

// open opens a link.
func (a *fuzzClient) open() {
	a.link = a.post(overHTTP2, procedureOf(lockagentv1connect.LockServiceLinkProcedure), bytes.NewReader(frame(0, nil)))
}

// submits begins to send a message.
func (a *fuzzClient) submits(m *lockagentv1.SubmitRequest) {
	if a.submit == nil {
		body, submit := io.Pipe()
		a.submit = submit
		a.post(overHTTP2, procedureOf(lockagentv1connect.LockServiceSubmitProcedure), body)
	}
	to := a.submit
	go func() { _, _ = to.Write(frame(0, marshal(m))) }() // the daemon may not read it
}

// beginning is that of the answer.
func (c *fuzzCall) beginning() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.said)
}

// linkID is that of the link, if the daemon has told it.
func (a *fuzzClient) linkID() string {
	if a.link == nil {
		return ""
	}
	news, said := new(lockagentv1.LinkNews), a.link.beginning()
	if len(said) < 5 || proto.Unmarshal(said[5:5+min(int(said[4]), len(said)-5)], news) != nil {
		return ""
	}
	return news.GetLink()
}

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

// besieged is a daemon in a bubble of virtual time. The connections are pipes, and so the bubble knows when all is quiet. One user
// attacks it. Another one has a lock, and waits for it as well.
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
func besiege(t testing.TB) *besieged {
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
	b.d, err = Start(Config{Listener: b.conns, Store: b.store, Logger: slog.New(b), Access: b.rules, Lease: fuzzerLease})
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
		return socket.NewContext(ctx, socket.Peer{PID: 1 << 30, UID: c.(connOf).uid, GID: c.(connOf).uid})
	}
	victim := claims.Request{Client: claims.Client{PID: 1 << 30, UID: victimUID}, Name: victimLock, Session: "job", Secret: strings.Repeat("s", claims.MinSecret)}
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
	if len(l.Holders) != 1 || l.Holders[0].ID != b.id || l.Holders[0].Token != b.token || l.Holders[0].State != claims.Held ||
		len(l.Waiters) < 1 || l.Waiters[0].ID != b.next || l.Waiters[0].State != claims.Waiting {
		b.t.Fatalf("the lock of the victim is %+v", l)
	}
}

// connOf is a connection of a user.
type connOf struct {
	net.Conn
	uid uint32
}

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
	locks, _ := b.d.book.Locks(func(lockagent.Name) bool { return true }, "", 1000)
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
	b.victim.submits(&lockagentv1.SubmitRequest{Link: b.link, Commands: []*lockagentv1.Command{acquireAs(1, &lockagentv1.AcquireRequest{Name: "theirs/desk", Wait: durationpb.New(time.Hour)})}})
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

// A connection may say anything, and then nothing more.
func FuzzConnection(f *testing.F) {
	const head = " HTTP/1.1\r\nHost: x\r\nContent-Type: application/"
	acquire := frame(0, marshal(&lockagentv1.AcquireRequest{Name: "mine/door"}))
	for _, seed := range []string{
		"POST /lockagent.v1.LockService/Release" + head + "json\r\nContent-Length: 13\r\n\r\n{\"claim\":\"x\"}",
		"POST /lockagent.v1.LookService/List" + head + "json\r\nContent-Length: 2\r\n\r\n{}",
		"GET /lockagent.v1.LookService/List?connect=v1&encoding=json&message={} HTTP/1.1\r\nHost: x\r\n\r\n",
		fmt.Sprintf("POST /lockagent.v1.LockService/Acquire"+head+"connect+proto\r\nContent-Length: %d\r\n\r\n%s", len(acquire), acquire),
		fmt.Sprintf("POST /lockagent.v1.LockService/Acquire"+head+"grpc-web\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(acquire), acquire),
		"POST /lockagent.v1.LockService/Acquire" + head + "connect+proto\r\nContent-Length: 5\r\n\r\n\x00\xff\xff\xff\xff",
		"POST /lockagent.v1.LockService/Release" + head + "proto\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08",
		"POST /lockagent.v1.LockService/Release" + head + "json\r\nExpect: 100-continue\r\nConnect-Timeout-Ms: 99999999999999999999\r\nContent-Length: 9\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	for _, protocol := range protocols {
		f.Add(recorded(f, protocol))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		synctest.Test(t, func(t *testing.T) {
			b := besiege(t)
			conn := b.dial(fuzzerUID)
			go func() { _, _ = conn.Write(sent) }()
			go func() { _, _ = io.Copy(io.Discard, conn) }()
			synctest.Wait()
			b.unharmed()
			time.Sleep(defaultRead + time.Second) // for the rest of a request, which does not come
			synctest.Wait()
			b.unharmed()
			_ = conn.Close()
			synctest.Wait()
			b.end()
		})
	})
}

// Each procedure gets any bytes as its message, in each protocol.
func FuzzBody(f *testing.F) {
	for i := range procedures {
		for j := range protocols {
			f.Add(uint8(i), uint8(j), []byte("\x0a\x09mine/door"))
			f.Add(uint8(i), uint8(j), frame(0, []byte("\x0a\x09mine/door")))
			f.Add(uint8(i), uint8(j), []byte(`{"name":"mine/door"}`))
		}
	}
	f.Add(uint8(0), uint8(0), []byte(`{"name":"mine/door","wait":"-1s","labels":{"":""},"kind":"KIND_FAIR","x":[[[[`))
	f.Fuzz(func(t *testing.T, procedure, protocol uint8, body []byte) {
		synctest.Test(t, func(t *testing.T) {
			b := besiege(t)
			a := b.client(fuzzerUID)
			a.post(protocols[int(protocol)%len(protocols)], procedures[int(procedure)%len(procedures)], bytes.NewReader(body))
			synctest.Wait()
			b.unharmed()
			a.end()
			b.gone()
			b.end()
		})
	})
}

// Programs of many calls, with messages that are what they should be, but for what they say: the names and ids of others, wrong secrets and numbers,
// and what does not fit together. All calls of a program go on until it ends them, or ends itself.
func FuzzCalls(f *testing.F) {
	f.Add([]byte{})
	for i := range 64 { // each of these begins with other calls
		f.Add(bytes.Repeat([]byte{byte(i), byte(7 * i), byte(i / 3), byte(13 * i), 1, 2, byte(5 * i)}, 40))
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		synctest.Test(t, func(t *testing.T) {
			b := besiege(t)
			a := b.client(fuzzerUID)
			a.source = program
			for range 32 {
				if len(a.source) == 0 {
					break
				}
				a.step()
				synctest.Wait()
				b.unharmed()
			}
			a.end()
			b.gone()
			b.end()
		})
	})
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
		lockagentv1.File_lockagent_v1_lock_proto, lockagentv1.File_lockagent_v1_look_proto, lockagentv1.File_lockagent_v1_operate_proto,
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
				all = append(all, procedure{fmt.Sprintf("/%s/%s", service.FullName(), m.Name()), input, m.IsStreamingServer() || m.IsStreamingClient()})
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

// recorder keeps what a client sends.
type recorder struct {
	net.Conn
	mu   sync.Mutex
	sent []byte // guarded by mu
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = append(r.sent, p...)
	return r.Conn.Write(p)
}

// recorded is what a client sends in a protocol.
func recorded(t testing.TB, p protocol) []byte {
	d := run(t)
	client, first := httpClient(t, d.path, p.version), new(recorder)
	client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer(d.path)(ctx, network, address)
		if first.Conn != nil {
			return conn, err
		}
		first.Conn = conn
		return first, err
	}
	for _, path := range []string{"/lockagent.v1.LookService/List", "/lockagent.v1.LockService/Acquire"} {
		of := procedureOf(path)
		kind := p.unary
		if of.streams {
			kind = p.stream
		}
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, baseURL+path, bytes.NewReader(p.body(of, &lockagentv1.AcquireRequest{Name: "mine/door"})))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", kind)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = resp.Body.Read(make([]byte, 1))
		cancel()
		_ = resp.Body.Close()
	}
	first.mu.Lock()
	defer first.mu.Unlock()
	return bytes.Clone(first.sent)
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
		a.http[version] = &http.Client{Transport: &http.Transport{Protocols: &protocols, HTTP2: window, DisableCompression: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
			return b.dial(uid), nil
		}}}
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

// step does what the source says next.
func (a *fuzzClient) step() {
	switch a.byte() % 8 {
	default:
		of := procedures[int(a.byte())%len(procedures)]
		p := protocols[int(a.byte())%len(protocols)]
		m := of.input.New()
		a.fill(m, 0)
		a.post(p, of, bytes.NewReader(p.body(of, m.Interface())))
	case 4:
		a.open()
	case 5:
		m := &lockagentv1.SubmitRequest{}
		a.fill(m.ProtoReflect(), 0)
		if a.byte()%8 != 7 {
			m.Link = a.linkID()
		}
		a.submits(m)
	case 6:
		time.Sleep([]time.Duration{time.Millisecond, time.Second, fuzzerLease / 2, time.Hour}[a.byte()%4])
	case 7:
		if n := len(a.calls); n > 0 {
			a.calls[int(a.byte())%n].cancel()
		}
		if a.submit != nil && a.byte()%4 == 0 {
			_ = a.submit.Close()
			a.submit = nil
		}
	}
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

// byte is the next one of the source, and 0 behind its end.
func (a *fuzzClient) byte() byte {
	if len(a.source) == 0 {
		return 0
	}
	next := a.source[0]
	a.source = a.source[1:]
	return next
}

// fill sets fields of a message.
func (a *fuzzClient) fill(m protoreflect.Message, depth int) {
	if d, ok := m.Interface().(*durationpb.Duration); ok {
		d.Seconds = []int64{0, 0, 1, 60, 3600, 366 * 24 * 3600, -1, 1 << 62}[a.byte()%8]
		d.Nanos = []int32{0, 1, 1e6, -1, 1 << 30, -1 << 31}[a.byte()%6]
		return
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if a.byte()%3 == 0 {
			continue
		}
		switch {
		case f.IsMap():
			for range a.byte() % 20 {
				m.Mutable(f).Map().Set(protoreflect.ValueOfString(a.text()).MapKey(), protoreflect.ValueOfString(a.text()))
			}
		case f.IsList():
			for range a.byte() % 8 {
				list := m.Mutable(f).List()
				if f.Message() == nil {
					list.Append(a.scalar(f))
				} else if depth < 3 {
					a.fill(list.AppendMutable().Message(), depth+1)
				}
			}
		case f.Message() == nil:
			m.Set(f, a.scalar(f))
		case depth < 3:
			a.fill(m.Mutable(f).Message(), depth+1)
		}
	}
}

// scalar is a value for a field: one with which something could go wrong.
func (a *fuzzClient) scalar(f protoreflect.FieldDescriptor) protoreflect.Value {
	numbers := []int64{0, 1, 2, 3, -1, 100, 1 << 31, -1 << 31, 1<<63 - 1, -1 << 63, int64(a.b.token), int64(a.byte())}
	n := numbers[int(a.byte())%len(numbers)]
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(a.text())
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(n%2 == 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(a.byte()%12) - 1)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(n)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(n))
	}
	panic("the fuzzer does not know the kind of " + f.FullName())
}

// text is a name, an id or a secret, of the fuzzer or of its victim. The fuzzer does not know the secrets of the victim.
func (a *fuzzClient) text() string {
	words := []string{
		"mine/door", "mine/desk", "mine/seats", victimLock, a.b.id, a.b.next, a.b.link, "job", strings.Repeat("m", claims.MinSecret), strings.Repeat("n", claims.MinSecret),
		"guess", "**", "mine/*", "a}b", "\x00", strings.Repeat("x", 600), lockagentv1connect.LockServiceName, "", a.ownClaim(),
	}
	i := int(a.byte())
	if i < len(words)*8 {
		return words[i%len(words)]
	}
	n := min(int(a.byte()), len(a.source))
	text := strings.ToValidUTF8(string(a.source[:n]), "")
	a.source = a.source[n:]
	return text
}

// ownClaim is the id of a claim of the fuzzer.
func (a *fuzzClient) ownClaim() string {
	locks, _ := a.b.d.book.Locks(func(name lockagent.Name) bool { return name != victimLock }, "", 1)
	for _, l := range locks {
		for _, c := range slices.Concat(l.Holders, l.Waiters) {
			return c.ID
		}
	}
	return ""
}

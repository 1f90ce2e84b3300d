package natslog

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/events/internal/eventstest"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/redisserver"
	"github.com/lockagent/lockagent/internal/waittest"
)

func TestMain(m *testing.M) {
	if part := os.Getenv(partVariable); part != "" {
		os.Exit(parts[part]())
	}
	setPasswords()
	goleak.VerifyTestMain(m, natstest.LeftBehind())
}

// servePart is a NATS server.
func servePart() int {
	s, err := natsserver.Start(natsserver.Config{
		Dir: setting("DIR"), Listen: setting("ADDR"), ConfigFile: setting("CONF"),
		// The server logs to the log of the test.
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(s.URL())
	untilOrphaned()
	if err := s.Stop(); err != nil {
		return 1
	}
	return 0
}

// process is a NATS server in a process of its own.
type process struct {
	*child
	url string
}

// newProcess returns a server that is not started yet but has its address.
func newProcess(t testing.TB) *process {
	addr := address(t)
	return &process{newChild(t, "server", map[string]string{"DIR": t.TempDir(), "ADDR": addr}), "nats://" + addr}
}

// addresses are those that were given to servers of this process.
var addresses sync.Map

// address returns a loopback address for a server that is started again and again: no outgoing connection takes it
// meanwhile.
func address(t testing.TB) string {
	for {
		port, err := redisserver.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if _, given := addresses.LoadOrStore(addr, true); !given {
			return addr
		}
	}
}

// start starts it, with patience: another program may have the port for a moment.
func (p *process) start() {
	p.t.Helper()
	waittest.Until(p.t, "the server is ready", func() bool {
		if p.child.start() == p.url {
			return true
		}
		p.kill()
		return false
	})
}

// link is the in-process way to a server, with a test's hand on it.
type link struct {
	mu     sync.Mutex
	server *natsserver.Server
	muted  bool
	writes func(text []byte) bool // sees what the client says, and reports whether the server shall hear it
	say    string
	conns  []*linkConn
}

type linkConn struct {
	net.Conn
	link   *link
	closed chan struct{}
	once   sync.Once
}

func (l *link) InProcessConn() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.server == nil {
		return nil, syscall.EHOSTDOWN
	}
	c, err := l.server.InProcessConn()
	if err != nil {
		return nil, err
	}
	conn := &linkConn{Conn: c, link: l, closed: make(chan struct{})}
	l.conns = append(l.conns, conn)
	return conn, nil
}

// use makes s the server of new connections; nil is none.
func (l *link) use(s *natsserver.Server) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.server = s
}

// mute lets nothing from the server through any more.
func (l *link) mute(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.muted = on
}

// lie gives the client text, once, instead of what the server says next.
func (l *link) lie(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.say = text
}

// cut closes all connections.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		c.Close()
	}
	l.conns = nil
}

func (c *linkConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.link.mu.Lock()
	muted, say := c.link.muted, c.link.say
	c.link.say = ""
	select {
	case <-c.closed: // what was read before a cut does not come through, though the link is not mute any more
		muted = true
	default:
	}
	c.link.mu.Unlock()
	if say != "" {
		return copy(b, say), nil
	}
	if muted {
		<-c.closed
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *linkConn) Write(b []byte) (int, error) {
	c.link.mu.Lock()
	writes := c.link.writes
	c.link.mu.Unlock()
	if writes != nil && !writes(b) {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// tap has f see all that the client says from now on, and decide what the server hears.
func (l *link) tap(f func(text []byte) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes = f
}

func (c *linkConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// newPublisher returns a publisher that is closed at the end of the test if the
// test has not done so.
func newPublisher(t testing.TB, cfg Config) *Publisher {
	t.Helper()
	if cfg.Agent == "" {
		cfg.Agent = eventstest.Agent
	}
	if cfg.Logger == nil {
		cfg.Logger = testLogger(t)
	}
	if cfg.Heartbeat == 0 {
		cfg.Heartbeat = time.Hour // nothing but what the test records
	}
	p, err := NewPublisher(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		done, cancel := context.WithCancel(context.Background())
		cancel()
		_ = p.Close(done)
	})
	return p
}

func testLogger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func flushed(t testing.TB, p *Publisher) {
	t.Helper()
	if err := p.Flush(waittest.Context(t)); err != nil {
		t.Fatalf("%v; %+v", err, p.Stats())
	}
}

// client returns a JetStream client of its own.
func client(t testing.TB, c Connection) jetstream.JetStream {
	t.Helper()
	js, err := c.JetStream(connected(t, c))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// connected returns a connection that is closed when the test ends.
func connected(t testing.TB, c Connection, options ...nats.Option) *nats.Conn {
	t.Helper()
	if c.Logger == nil {
		c.Logger = testLogger(t)
	}
	nc, err := Connect(c, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// messages returns all that is in the stream, in its order.
func messages(t testing.TB, js jetstream.JetStream, stream string) []*jetstream.RawStreamMsg {
	t.Helper()
	ctx := waittest.Context(t)
	s, err := leaderOf(ctx, js, stream)
	if err != nil {
		t.Fatal(err)
	}
	state := s.CachedInfo().State
	var all []*jetstream.RawStreamMsg
	for seq := state.FirstSeq; seq <= state.LastSeq; seq++ {
		m, err := s.GetMsg(ctx, seq)
		if err != nil {
			t.Fatalf("message %d: %v", seq, err)
		}
		all = append(all, m)
	}
	return all
}

// written returns the records of the stream, in its order.
func written(t testing.TB, c Connection, stream string) []events.Record {
	t.Helper()
	if stream == "" {
		stream = DefaultStream
	}
	var all []events.Record
	for _, m := range messages(t, client(t, c), stream) {
		if len(m.Data) == 0 {
			continue // of the test itself
		}
		err := events.DecodeMessage(m.Header.Get("Content-Type"), m.Data, func(r events.Record) error {
			all = append(all, r)
			return nil
		})
		if err != nil {
			t.Fatalf("message %d: %v", m.Sequence, err)
		}
	}
	return all
}

// wantEverything checks that the stream has the requests 0 to n-1 and the records 1 to n, each once
// and in their order.
func wantEverything(t testing.TB, c Connection, n int) {
	t.Helper()
	all := written(t, c, "")
	if len(all) != n {
		t.Errorf("%d records, want %d", len(all), n)
	}
	for i, r := range all {
		if r.Seq != uint64(i)+1 || r.Request != uint64(i) {
			t.Fatalf("record %d is number %d, of request %d", i, r.Seq, r.Request)
		}
	}
}

// wantOnce checks that the records have the numbers 1 to n, each once, in any order.
func wantOnce(t testing.TB, all []events.Record, n int) {
	t.Helper()
	seen := make(map[uint64]bool)
	for _, r := range all {
		if seen[r.Seq] || r.Seq < 1 || r.Seq > uint64(n) {
			t.Fatalf("record %d comes twice, or is one too many", r.Seq)
		}
		seen[r.Seq] = true
	}
	if len(seen) != n {
		t.Errorf("%d records, want %d", len(seen), n)
	}
}

// wantStats compares the events that were counted.
func wantStats(t testing.TB, p *Publisher, want Stats) {
	t.Helper()
	got := p.Stats()
	if got.Recorded != want.Recorded || got.Published != want.Published || got.Dropped != want.Dropped ||
		got.Queued != want.Queued {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// replayed returns all records of the stream, and the audit of them.
func replayed(t testing.TB, c Connection, stream string) ([]events.Record, audit.Report) {
	t.Helper()
	c.Logger = testLogger(t)
	r, err := OpenReader(ReaderConfig{Connection: c, Stream: stream})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var all []events.Record
	auditor := newLogAudit(t)
	err = r.Replay(waittest.Context(t), From{}, events.Filter{}, func(r *events.Record, err error) error {
		if err == nil {
			all = append(all, *r)
		}
		return auditor.Visit(r, err)
	})
	if err != nil {
		t.Fatal(err)
	}
	return all, auditor.Report()
}

// requested is an event that the n-th request made.
func requested(n int) lockagent.Event {
	return lockagent.Event{Kind: lockagent.EventRequested, Lock: "orders/42", Request: uint64(n), Owner: "w"}
}

//go:build linux

package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"go.uber.org/goleak"

	"github.com/lockagent/lockagent/internal/daemon/socket"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/memstore"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

func TestMain(m *testing.M) {
	if role := os.Getenv("DAEMON_TEST_ROLE"); role != "" {
		os.Exit(play(role))
	}
	goleak.VerifyTestMain(m, natstest.LeftBehind())
}

var background = context.Background()

// running is a daemon under test.
type running struct {
	*Daemon
	path  string
	store *memstore.Store
}

// run starts a daemon. The end of the test ends it.
func run(t testing.TB, changes ...func(*Config)) *running {
	t.Helper()
	dir, err := os.MkdirTemp("", "lad") // paths of sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := &running{path: filepath.Join(dir, "agent.sock"), store: memstore.New()}
	listener, err := socket.Listen(socket.Config{Path: r.path})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Listener: listener, Store: r.store, Logger: slog.New(slog.DiscardHandler)}
	for _, change := range changes {
		change(&cfg)
	}
	if r.Daemon, err = Start(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(background)
		cancel()
		if err := r.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		_ = r.store.Close()
	})
	return r
}

// dialer dials the socket, whatever the address is.
func dialer(path string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
}

// httpClient is a client of the socket with connections of its own. Its version is 1 or 2. The end of the test closes
// the connections, also those with a request that has not quite ended: the daemon would wait for these.
func httpClient(t testing.TB, path string, version int) *http.Client {
	var protocols http.Protocols
	protocols.SetHTTP1(version == 1)
	protocols.SetUnencryptedHTTP2(version == 2)
	var mu sync.Mutex
	var conns []net.Conn // guarded by mu
	transport := &http.Transport{
		Protocols: &protocols, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer(path)(ctx, network, address)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				conns = append(conns, conn)
			}
			return conn, err
		},
	}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		mu.Lock()
		defer mu.Unlock()
		for _, c := range conns {
			_ = c.Close()
		}
	})
	return &http.Client{Transport: transport}
}

const baseURL = "http://lockagent"

// testClient is a client of the daemon under test, of each service.
type testClient struct {
	lockagentv1connect.LockServiceClient
	look    lockagentv1connect.LookServiceClient
	operate lockagentv1connect.OperateServiceClient
	http    *http.Client
}

func clientOver(h *http.Client, options ...connect.ClientOption) *testClient {
	return &testClient{
		lockagentv1connect.NewLockServiceClient(h, baseURL, options...),
		lockagentv1connect.NewLookServiceClient(h, baseURL, options...),
		lockagentv1connect.NewOperateServiceClient(h, baseURL, options...), h,
	}
}

func (r *running) client(t testing.TB) *testClient { return clientOver(httpClient(t, r.path, 2)) }

// kinds of clients.
func (r *running) clients(t testing.TB) map[string]*testClient {
	return map[string]*testClient{
		"Connect over HTTP/1.1":           clientOver(httpClient(t, r.path, 1)),
		"Connect with JSON over HTTP/1.1": clientOver(httpClient(t, r.path, 1), connect.WithProtoJSON()),
		"Connect, each call alone":        r.alone(t),
		"Connect over HTTP/2":             clientOver(httpClient(t, r.path, 2)),
		"gRPC":                            clientOver(httpClient(t, r.path, 2), connect.WithGRPC()),
		"gRPC-Web":                        clientOver(httpClient(t, r.path, 1), connect.WithGRPCWeb()),
	}
}

// alone is a client that makes a connection for each call.
func (r *running) alone(t testing.TB) *testClient {
	h := httpClient(t, r.path, 1)
	h.Transport.(*http.Transport).DisableKeepAlives = true
	return clientOver(h)
}

// stream is a claim of a test.
type stream struct {
	t      testing.TB
	events *connect.ServerStreamForClient[lockagentv1.ClaimEvent]
	end    func() // ends it as a client does that goes away
}

func (c *testClient) acquire(t testing.TB, req *lockagentv1.AcquireRequest) *stream {
	t.Helper()
	return open(t, func(ctx context.Context) (*connect.ServerStreamForClient[lockagentv1.ClaimEvent], error) {
		return c.Acquire(ctx, req)
	})
}

func (c *testClient) attach(t testing.TB, claim, secret string) *stream {
	t.Helper()
	return open(t, func(ctx context.Context) (*connect.ServerStreamForClient[lockagentv1.ClaimEvent], error) {
		return c.Attach(ctx, &lockagentv1.AttachRequest{Claim: claim, Secret: secret})
	})
}

func open(
	t testing.TB, call func(context.Context) (*connect.ServerStreamForClient[lockagentv1.ClaimEvent], error),
) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(background) // a deadline would be sent along, and be one of the claim
	context.AfterFunc(waittest.Context(t), cancel)
	events, err := call(ctx)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	s := &stream{t, events, func() {
		cancel()
		_ = events.Close()
	}}
	t.Cleanup(s.end)
	return s
}

// next reads the next event.
func (s *stream) next() *lockagentv1.ClaimEvent {
	s.t.Helper()
	if !s.events.Receive() {
		s.t.Fatalf("the stream ended: %v", s.events.Err())
	}
	return s.events.Msg()
}

func (s *stream) granted() *lockagentv1.Granted {
	s.t.Helper()
	e := s.next()
	if e.GetQueued() != nil {
		e = s.next()
	}
	if e.GetGranted() == nil {
		s.t.Fatalf("got %v, want a grant", e)
	}
	return e.GetGranted()
}

func (s *stream) queued() *lockagentv1.Queued {
	s.t.Helper()
	e := s.next()
	if e.GetQueued() == nil {
		s.t.Fatalf("got %v, want that it was queued", e)
	}
	return e.GetQueued()
}

// ended reads the last event, and skips renewals.
func (s *stream) ended() *lockagentv1.Ended {
	s.t.Helper()
	for {
		e := s.next()
		if e.GetRenewed() != nil || e.GetQueued() != nil || e.GetDraining() != nil {
			continue
		}
		if e.GetEnded() == nil {
			s.t.Fatalf("got %v, want the end", e)
		}
		if s.events.Receive() {
			s.t.Fatalf("%v after the end", s.events.Msg())
		}
		if err := s.events.Err(); err != nil && !errors.Is(err, io.EOF) {
			s.t.Fatalf("after the end: %v", err)
		}
		return e.GetEnded()
	}
}

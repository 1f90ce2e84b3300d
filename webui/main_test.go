//go:build linux

package webui_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/lockagent/lockagent/internal/daemon"
	"github.com/lockagent/lockagent/internal/daemon/access"
	"github.com/lockagent/lockagent/internal/daemon/socket"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/natsserver/natstest"
	"github.com/lockagent/lockagent/memstore"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
	"github.com/lockagent/lockagent/webui"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(clientEnv); role != "" {
		if err := play(role); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m, natstest.LeftBehind())
}

var background = context.Background()

// overSocket is a client of the daemon on a socket.
func overSocket(path string) (client lockagentv1connect.LockServiceClient, end func()) {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	client = lockagentv1connect.NewLockServiceClient(&http.Client{Transport: transport}, "http://lockagent")
	return client, transport.CloseIdleConnections
}

// running is a daemon with its page.
type running struct {
	*daemon.Daemon
	path, url  string // of the socket, and of the page
	allowBreak atomic.Bool
	lock       lockagentv1connect.LockServiceClient
	rules      *access.Access
	http       *http.Client
	nats       *natsserver.Server // with the event log
}

// setup is what differs between tests.
type setup struct {
	rules []access.Rule
	page  func(*daemon.PageConfig)
	store lockagent.Store
}

// run starts a daemon with a page and an event log. The end of the test ends it.
func run(t testing.TB, s setup) *running {
	t.Helper()
	dir, err := os.MkdirTemp("", "law") // paths of sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := &running{path: filepath.Join(dir, "s")}
	listener, err := socket.Listen(socket.Config{Path: r.path})
	if err != nil {
		t.Fatal(err)
	}
	logger := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	if s.store == nil {
		s.store = memstore.New()
	}
	t.Cleanup(func() { _ = s.store.Close() })
	r.rules, err = access.New(access.Config{
		Self: uint32(os.Geteuid()), Directory: daemon.Directory{}, Now: time.Now, Rules: s.rules,
		Refused: func(uint32, error, uint64) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := daemon.Config{Listener: listener, ID: lockagent.NewAgentID(), Store: s.store, Logger: logger, Access: r.rules}
	of := daemon.PageConfig{StoreName: "memory", AllowBreak: r.allowBreak.Load, Host: "web-1"}
	r.nats = natstest.Start(t, natsserver.Config{})
	local := natslog.Connection{InProcess: r.nats, Logger: logger}
	cfg.Recorder, of.Log = publish(t, local, cfg.ID), read(t, local)
	of.Parts = func() []webui.Part {
		return []webui.Part{
			{Name: "Event log", Where: "NATS in this daemon", State: webui.PartGood, Say: "up to date"},
			{Name: "NATS", Where: "no hub", State: webui.PartOff, Say: "the events stay on this host"},
		}
	}
	if r.Daemon, err = daemon.Start(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(background)
		cancel()
		if err := r.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	if of.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	r.url = "http://" + of.Listener.Addr().String()
	if s.page != nil {
		s.page(&of)
	}
	r.ServePage(of)
	var end func()
	r.lock, end = overSocket(r.path)
	transport := &http.Transport{}
	t.Cleanup(func() {
		end()
		transport.CloseIdleConnections()
	})
	r.http = &http.Client{
		Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return r
}

// publish publishes the events of an agent until the test ends.
func publish(t testing.TB, to natslog.Connection, agent lockagent.AgentID) *natslog.Publisher {
	t.Helper()
	p, err := natslog.NewPublisher(natslog.Config{Connection: to, Agent: agent})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(background); err != nil {
			t.Error(err)
		}
	})
	return p
}

// read reads an event log until the test ends.
func read(t testing.TB, from natslog.Connection) *natslog.Reader {
	t.Helper()
	r, err := natslog.OpenReader(natslog.ReaderConfig{Connection: from})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// claim is a claim of a test.
type claim struct {
	t       testing.TB
	granted *lockagentv1.Granted
	end     context.CancelFunc
	next    func() *lockagentv1.ClaimEvent // waits for the next event
}

// acquire makes a claim, and waits until it is granted, or queued.
func (r *running) acquire(t testing.TB, req *lockagentv1.AcquireRequest) *claim {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := r.lock.Acquire(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	c := &claim{t: t}
	c.end = func() {
		cancel()
		_ = stream.Close()
	}
	t.Cleanup(c.end)
	c.next = func() *lockagentv1.ClaimEvent {
		t.Helper()
		if !stream.Receive() {
			t.Fatal(stream.Err())
		}
		return stream.Msg()
	}
	c.granted = c.next().GetGranted()
	return c
}

// lost waits until the claim has ended, and returns how it was lost.
func (c *claim) lost() *lockagentv1.Lost {
	c.t.Helper()
	for {
		if e := c.next().GetEnded(); e != nil {
			return e.GetLost()
		}
	}
}

func (r *running) hold(t testing.TB, name, command string) *claim {
	t.Helper()
	return r.acquire(t, &lockagentv1.AcquireRequest{Name: name, Command: command})
}

// answer is what the page answers.
type answer struct {
	status int
	header http.Header
	body   string
}

func (r *running) do(t testing.TB, req *http.Request) answer {
	t.Helper()
	resp, err := r.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(body)}
}

func (r *running) request(t testing.TB, method, path string, form url.Values, headers ...string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if req.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	return req
}

func (r *running) get(t testing.TB, path string, headers ...string) answer {
	t.Helper()
	return r.do(t, r.request(t, http.MethodGet, path, nil, headers...))
}

// says checks the status of an answer, and what is in it. What begins with an exclamation mark must not be.
func (a answer) says(t testing.TB, status int, texts ...string) {
	t.Helper()
	if a.status != status {
		t.Errorf("the status is %d, want %d: %s", a.status, status, a.body)
	}
	for _, text := range texts {
		without, not := strings.CutPrefix(text, "!")
		if strings.Contains(a.body, without) == not {
			t.Errorf("want %q in %s", text, a.body)
		}
	}
}

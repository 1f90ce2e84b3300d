package lockcmd

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/client"
	"github.com/lockagent/lockagent/internal/daemon/follow"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// Acquire prints no claim that the daemon has not detached.
func TestAClaimThatIsNotDetached(t *testing.T) {
	for what, test := range map[string]struct {
		signal os.Signal
		lost   bool
		broken error
		code   int
	}{
		"a signal": {signal: syscall.SIGINT, code: cli.ExitSignal + int(syscall.SIGINT)},
		"a loss":   {lost: true, code: cli.ExitLost},
		"silence":  {code: cli.ExitUnavailable},
		"detached": {broken: errDetached},
		"an end":   {broken: io.ErrUnexpectedEOF}, // the daemon was detaching it
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, leave := context.WithCancel(t.Context())
				calls := new(countingTransport)
				caller := &http.Client{Transport: calls}
				c := &claimed{
					daemon: &client.Daemon{Path: "x", Locks: lockagentv1connect.NewLockServiceClient(caller, client.URL)},
					name:   "door", Claim: follow.Claim{First: 1}, asked: opening{detaches: true}, ctx: ctx, leave: leave,
				}
				h := &holding{
					supervision: new(supervision), stderr: io.Discard, claims: []*claimed{c}, news: make(chan news, 2),
					signals: make(chan os.Signal, 1),
				}
				h.news <- renewal(c, time.Hour)
				if test.signal != nil {
					h.signals <- test.signal
				}
				if test.lost {
					h.news <- news{of: c, event: &lockagentv1.ClaimEvent{Event: &lockagentv1.ClaimEvent_Ended{
						Ended: &lockagentv1.Ended{How: &lockagentv1.Ended_Lost{Lost: &lockagentv1.Lost{}}},
					}}}
				}
				if test.broken != nil {
					h.news <- news{of: c, broken: test.broken}
				}
				if err := h.detach(c); cli.CodeOf(err) != test.code {
					t.Errorf("%v, exit code %d", err, cli.CodeOf(err))
				}
				if released := calls.n.Load() > 0; released != (test.code != cli.ExitOK) {
					t.Errorf("%d calls to the daemon", calls.n.Load())
				}
			})
		})
	}
}

// countingTransport is a silent daemon that counts the calls.
type countingTransport struct {
	silentTransport
	n atomic.Int32
}

func (c *countingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	c.n.Add(1)
	return c.silentTransport.RoundTrip(r)
}

// All releases of a command together wait for a silent daemon as long as one does.
func TestReleasesAreBoundedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		silent := &http.Client{Transport: silentTransport{}}
		d := &client.Daemon{Path: "x", Locks: lockagentv1connect.NewLockServiceClient(silent, client.URL)}
		h := &holding{supervision: new(supervision), stderr: io.Discard}
		for _, name := range []lockagent.Name{"desk", "door", "room"} {
			h.claims = append(h.claims, &claimed{daemon: d, name: name, Claim: follow.Claim{First: 1}, ctx: ctx, leave: leave})
		}
		began := time.Now()
		h.finish()
		if took := time.Since(began); took != releaseTime || h.lost != nil {
			t.Errorf("it took %v: %v", took, h.lost)
		}
	})
}

// silentTransport is a daemon that takes requests and never answers.
type silentTransport struct{}

func (silentTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

// Nobody waits where there is no socket.
func TestRequestsWithoutASocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none")
	for what := range forTheDaemon {
		if took, err := forADaemon(t, path, what); cli.CodeOf(err) != cli.ExitNoDaemon || took != 0 {
			t.Errorf("%s: %v after %v", what, err, took)
		}
	}
}

// A socket on which nobody listens was left to the next daemon, or by one that was killed, or nobody will come. Those
// who do not wait for others give the next daemon the time of a restart, and those who wait have more patience.
func TestRequestsToASocketThatWasLeft(t *testing.T) {
	path := leftSocket(t)
	for what, patience := range map[string]time.Duration{
		"lock": awayTime, "lock -n": handOverTime, "lock -w 5s": 5 * time.Second, "lock --slots -n": handOverTime,
		"attach": awayTime, "release": awayTime,
	} {
		took, err := forADaemon(t, path, what)
		if cli.CodeOf(err) != cli.ExitNoDaemon || took < patience || took > patience+time.Second {
			t.Errorf("%s: %v after %v, want %v", what, err, took, patience)
		}
	}
}

// A daemon that starts within the time that a request has for it takes the request.
func TestATryOutlastsARestart(t *testing.T) {
	for what := range forTheDaemon {
		path := leftSocket(t)
		next := forbidding(t)
		synctest.Test(t, func(t *testing.T) {
			time.AfterFunc(handOverTime-time.Second/2, func() {
				if err := os.Rename(next, path); err != nil { // as a daemon takes over a socket
					t.Error(err)
				}
			})
			if _, err := doForADaemon(t, path, what); !errors.Is(err, refusal.ErrForbidden) {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
}

// forTheDaemon are requests.
var forTheDaemon = map[string]func(ctx context.Context, h *holding, d *client.Daemon) error{
	"lock": func(_ context.Context, h *holding, d *client.Daemon) error {
		return h.take(d, "door", acquiring(&lockagentv1.AcquireRequest{Name: "door"}))
	},
	"lock -n": func(_ context.Context, h *holding, d *client.Daemon) error {
		return h.take(d, "door", acquiring(&lockagentv1.AcquireRequest{Name: "door", Try: true}))
	},
	"lock -w 5s": func(_ context.Context, h *holding, d *client.Daemon) error {
		return h.take(d, "door", acquiring(&lockagentv1.AcquireRequest{Name: "door", Wait: durationpb.New(5 * time.Second)}))
	},
	"lock --slots -n": func(_ context.Context, h *holding, d *client.Daemon) error {
		asked := acquiring(&lockagentv1.AcquireRequest{Name: "door", Try: true})
		return h.provide(d, "door", &asked, 2)
	},
	"attach": func(_ context.Context, h *holding, d *client.Daemon) error {
		return h.take(d, "", attaching("a", "b", false))
	},
	"release": func(ctx context.Context, _ *holding, d *client.Daemon) error {
		return release(ctx, d, &lockagentv1.ReleaseRequest{Claim: "a", Secret: "b"})
	},
}

// forADaemon makes a request to the daemon on a socket, in virtual time, and tells how long it took.
func forADaemon(t *testing.T, path, what string) (took time.Duration, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { took, err = doForADaemon(t, path, what) })
	return took, err
}

func doForADaemon(t *testing.T, path, what string) (took time.Duration, err error) {
	t.Helper()
	d := client.New(path)
	defer d.Close()
	h := &holding{supervision: new(supervision), stderr: io.Discard, news: make(chan news), signals: make(chan os.Signal)}
	defer h.leave()
	began := time.Now()
	err = forTheDaemon[what](t.Context(), h, d)
	return time.Since(began), err
}

// socketPath is a path of a socket, which must be short.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "la")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// leftSocket is a socket on which nobody listens.
func leftSocket(t *testing.T) (path string) {
	t.Helper()
	path = socketPath(t)
	left, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	left.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = left.Close()
	return path
}

// forbidding is the socket of a daemon that forbids everything.
func forbidding(t *testing.T) (path string) {
	t.Helper()
	path = socketPath(t)
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false) // the socket may be elsewhere
	mux := http.NewServeMux()
	mux.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = connect.NewErrorWriter().Write(w, r, wire.Refuse(refusal.ErrForbidden))
	}))
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return path
}

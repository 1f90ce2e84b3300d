package lockcmd

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/client"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// Acquire prints no claim that the daemon has not detached.
func TestAClaimThatIsNotDetached(t *testing.T) {
	for what, test := range map[string]struct {
		signal os.Signal
		news   error
		code   int
	}{
		"a signal": {signal: syscall.SIGINT, code: cli.ExitSignal + int(syscall.SIGINT)},
		"a loss":   {news: lockagent.ErrLost, code: cli.ExitLost},
		"silence":  {code: cli.ExitUnavailable},
		"detached": {news: errDetached},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, leave := context.WithCancel(t.Context())
				calls := new(countingTransport)
				caller := &http.Client{Transport: calls}
				c := &claimed{
					daemon: &client.Daemon{Path: "x", Locks: lockagentv1connect.NewLockServiceClient(caller, client.URL)},
					name:   "door", token: 1, ctx: ctx, leave: leave,
				}
				h := &holding{
					stderr: io.Discard, claims: []*claimed{c}, news: make(chan news, 2),
					signals: make(chan os.Signal, 1),
				}
				h.news <- news{of: c, deadline: 1}
				if test.signal != nil {
					h.signals <- test.signal
				}
				if test.news != nil {
					h.news <- news{of: c, ended: test.news, lost: true}
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
			h.claims = append(h.claims, &claimed{daemon: d, name: name, token: 1, ctx: ctx, leave: leave})
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
	for what, do := range map[string]func(ctx context.Context, d *client.Daemon) error{
		"lock": func(_ context.Context, d *client.Daemon) error {
			h := &holding{
				supervision: new(supervision), stderr: io.Discard, news: make(chan news), signals: make(chan os.Signal),
			}
			return h.take(d, "door", acquiring(&lockagentv1.AcquireRequest{Name: "door"}))
		},
		"release": func(ctx context.Context, d *client.Daemon) error {
			return release(ctx, d, &lockagentv1.ReleaseRequest{Claim: "a", Secret: "b"})
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := client.New(path)
			defer d.Close()
			began := time.Now()
			err := do(t.Context(), d)
			if took := time.Since(began); cli.CodeOf(err) != cli.ExitNoDaemon || took != 0 {
				t.Errorf("%s: %v after %v", what, err, took)
			}
		})
	}
}

//go:build linux

package daemon

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/access"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// withLimits returns an access with limits. The user of the tests may do everything.
func withLimits(t *testing.T, limits access.Limits) *access.Access {
	t.Helper()
	a, err := access.New(access.Config{Self: uint32(os.Geteuid()), Directory: Directory{}, Now: time.Now, Refused: func(uint32, error, uint64) {}, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// firstOf reads the first message of a stream, and returns what ends it, and its error.
func firstOf[T any](call func(context.Context) (*connect.ServerStreamForClient[T], error)) (end func(), err error) {
	ctx, cancel := context.WithTimeout(background, patience)
	s, err := call(ctx)
	if err != nil {
		return cancel, err
	}
	s.Receive()
	return func() {
		cancel()
		_ = s.Close()
	}, s.Err()
}

func TestStreamsThatOnlyWatchAreLimited(t *testing.T) {
	limited := withLimits(t, access.Limits{Streams: 2})
	d := run(t, func(cfg *Config) { cfg.Access = limited })
	c := d.client(t)
	watch := func() (func(), error) {
		return firstOf(func(ctx context.Context) (*connect.ServerStreamForClient[lockagentv1.WatchEvent], error) {
			return c.look.Watch(ctx, &lockagentv1.WatchRequest{})
		})
	}
	link := func() (func(), error) {
		return firstOf(func(ctx context.Context) (*connect.ServerStreamForClient[lockagentv1.LinkNews], error) {
			return c.Link(ctx, &lockagentv1.LinkRequest{})
		})
	}
	end1, err1 := watch()
	end2, err2 := link()
	defer end1()
	defer end2()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	counts := lockagentv1connect.NewCountServiceClient(c.http, baseURL)
	refused := map[string]func() error{
		"watch": func() error {
			end, err := watch()
			end()
			return err
		},
		"link": func() error {
			end, err := link()
			end()
			return err
		},
		"await": func() error {
			_, err := counts.AwaitLatch(background, &lockagentv1.AwaitLatchRequest{Name: "latch"})
			return err
		},
		"claim": func() error {
			end, err := firstOf(func(ctx context.Context) (*connect.ServerStreamForClient[lockagentv1.ClaimEvent], error) {
				return c.Acquire(ctx, &lockagentv1.AcquireRequest{Name: "door"})
			})
			end()
			return err
		},
	}
	for name, call := range refused {
		err := call()
		if quota, ok := errors.AsType[*refusal.QuotaError](wire.Refused(err)); !ok || quota.What != "streams" || quota.Limit != 2 || connect.CodeOf(err) != connect.CodeResourceExhausted {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if all := limited.Refusals(); len(all) != 1 || all[0].Reason != "streams" || all[0].Count != uint64(len(refused)) {
		t.Errorf("the refusals are %v", all)
	}
	if _, err := c.Check(background, &lockagentv1.CheckRequest{Name: "door"}); err != nil {
		t.Errorf("a call that is no stream: %v", err)
	}
	end1()
	for end, err := watch(); err != nil; end, err = watch() { // until the daemon has seen that the other one has ended
		end()
		if !errors.Is(wire.Refused(err), refusal.ErrQuota) || t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}

func TestRequestsAreLimited(t *testing.T) {
	d := run(t, func(cfg *Config) { cfg.MaxRequest = 4096 })
	c := d.client(t)
	ask := func(size int) error {
		_, err := c.Release(background, &lockagentv1.ReleaseRequest{Claim: strings.Repeat("x", size)})
		return err
	}
	if err := ask(4000); err != nil {
		t.Error(err)
	}
	if err := ask(4200); connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("a request that is too large: %v", err)
	}
}

type traceKey struct{}

// traces records the trace of each event.
type traces struct {
	mu   sync.Mutex
	seen map[lockagent.EventKind]any
}

func (r *traces) Record(ctx context.Context, e lockagent.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[e.Kind] = ctx.Value(traceKey{})
}

// The events of a claim are part of the trace of its caller, also when the call is over.
func TestAClaimHasTheTraceOfItsCaller(t *testing.T) {
	seen := &traces{seen: make(map[lockagent.EventKind]any)}
	d := run(t, func(cfg *Config) {
		cfg.Recorder = seen
		cfg.Trace = func(h http.Header) context.Context {
			ctx, cancel := context.WithCancel(context.WithValue(background, traceKey{}, h.Get("Traceparent")))
			cancel() // only its values count
			return ctx
		}
	})
	c := d.client(t)
	ctx, call := connect.NewClientContext(background)
	call.RequestHeader().Set("Traceparent", "00-a-b-01")
	s, err := c.Acquire(ctx, &lockagentv1.AcquireRequest{Name: "door"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if !s.Receive() || s.Msg().GetGranted() == nil {
		t.Fatal(s.Msg(), s.Err())
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if got := seen.seen[lockagent.EventGranted]; got != "00-a-b-01" {
		t.Errorf("the grant has the trace %v", got)
	}
}

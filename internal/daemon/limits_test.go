//go:build linux

package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/config"
	"github.com/lockagent/lockagent/internal/daemon/access"
	"github.com/lockagent/lockagent/internal/daemon/claims"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	"github.com/lockagent/lockagent/internal/waittest"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// withLimits returns an access with limits. The user of the tests may do everything.
func withLimits(t testing.TB, limits access.Limits) *access.Access {
	t.Helper()
	a, err := access.New(access.Config{
		Self: uint32(os.Geteuid()), Directory: Directory{}, Now: time.Now, Refused: func(uint32, error, uint64) {},
		Limits: limits,
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// firstOf reads the first message of a stream, and returns what ends it, and its error.
func firstOf[T any](
	t *testing.T, call func(context.Context) (*connect.ServerStreamForClient[T], error),
) (end func(), err error) {
	ctx, cancel := context.WithCancel(waittest.Context(t))
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
		return firstOf(t, func(ctx context.Context) (*connect.ServerStreamForClient[lockagentv1.WatchEvent], error) {
			return c.look.Watch(ctx, &lockagentv1.WatchRequest{})
		})
	}
	link := func() (func(), error) {
		return firstOf(t, func(ctx context.Context) (*connect.ServerStreamForClient[lockagentv1.LinkNews], error) {
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
			end, err := firstOf(t, func(ctx context.Context) (*connect.ServerStreamForClient[lockagentv1.ClaimEvent], error) {
				return c.Acquire(ctx, &lockagentv1.AcquireRequest{Name: "door"})
			})
			end()
			return err
		},
	}
	for name, call := range refused {
		err := call()
		if quota, ok := errors.AsType[*refusal.QuotaError](wire.Refused(err)); !ok || quota.What != "streams" ||
			quota.Limit != 2 || connect.CodeOf(err) != connect.CodeResourceExhausted {
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

// Those who watch have a limit of their own, and other streams go on beside them.
func TestWatchesAreLimited(t *testing.T) {
	d := run(t, func(cfg *Config) {
		cfg.Access, cfg.Log = withLimits(t, access.Limits{Streams: 9, Watches: 1}), &quietLog{}
	})
	c := d.client(t)
	watch := func() (func(), error) {
		return firstOf(t, func(ctx context.Context) (*connect.ServerStreamForClient[lockagentv1.WatchEvent], error) {
			return c.look.Watch(ctx, &lockagentv1.WatchRequest{})
		})
	}
	end, err := watch()
	defer end()
	if err != nil {
		t.Fatal(err)
	}
	more, err := watch()
	defer more()
	if quota, ok := errors.AsType[*refusal.QuotaError](wire.Refused(err)); !ok ||
		quota.What != "streams that only watch" || quota.Limit != 1 {
		t.Errorf("a second one got %v", err)
	}
	if _, err := readRecords(
		t, c, &lockagentv1.ReadLogRequest{Watch: "**", Follow: true},
	); !errors.Is(wire.Refused(err), refusal.ErrQuota) {
		t.Errorf("who reads the log beside it got %v", err)
	}
	c.acquire(t, &lockagentv1.AcquireRequest{Name: "door"}).granted()
	end()
	for end, err := watch(); err != nil; end, err = watch() { // until the daemon has seen that the other one has ended
		end()
		if !errors.Is(wire.Refused(err), refusal.ErrQuota) || t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}

// Semaphores and latches stay for ever, so there may be only so many. One that is deleted leaves its place to another,
// also after a restart.
func TestNumbersAreLimited(t *testing.T) {
	t.Parallel()
	var limited *access.Access // of each life
	l := newLives(t, func(cfg *Config) {
		limited = withLimits(t, access.Limits{Numbers: 2})
		cfg.Access = limited
	})
	permits := func(name string, op lockagentv1.PermitsOp) error {
		req := &lockagentv1.PermitsRequest{Name: name, Kind: lockagentv1.Kind_KIND_SEMAPHORE, Op: op, N: 3}
		_, err := lockagentv1connect.NewCountServiceClient(l.client(t).http, baseURL).Permits(background, req)
		return wire.Refused(err)
	}
	latch := func(name string, op lockagentv1.LatchOp) error {
		_, err := lockagentv1connect.NewCountServiceClient(l.client(t).http, baseURL).Latch(
			background, &lockagentv1.LatchRequest{Name: name, Op: op, Count: 3},
		)
		return wire.Refused(err)
	}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	refused := func(err error) {
		t.Helper()
		quota, is := errors.AsType[*refusal.QuotaError](err)
		if !is || quota.What != refusal.Numbers || quota.Limit != 2 ||
			!strings.Contains(err.Error(), "delete some, or have limits.numbers raised") {
			t.Errorf("got %v", err)
		}
	}
	ok(permits("seats", lockagentv1.PermitsOp_PERMITS_OP_TRY_SET))
	ok(latch("ready", lockagentv1.LatchOp_LATCH_OP_SET))
	for range 2 {
		refused(permits("more", lockagentv1.PermitsOp_PERMITS_OP_TRY_SET))
		refused(permits("more", lockagentv1.PermitsOp_PERMITS_OP_ADD))
		refused(latch("more", lockagentv1.LatchOp_LATCH_OP_SET))
		ok(permits("seats", lockagentv1.PermitsOp_PERMITS_OP_ADD)) // there is one already
		ok(permits("more", lockagentv1.PermitsOp_PERMITS_OP_READ))
		if all := limited.Refusals(); len(all) != 1 || all[0].Reason != refusal.Numbers || all[0].Count != 3 {
			t.Errorf("the refusals are %v", all)
		}
		l.end(l.Leave)
		l.begin()
	}
	ok(permits("seats", lockagentv1.PermitsOp_PERMITS_OP_DELETE))
	var all sync.WaitGroup
	var made atomic.Int32
	for i := range 20 { // at the same time
		all.Go(func() {
			if latch(fmt.Sprint("latch/", i), lockagentv1.LatchOp_LATCH_OP_SET) == nil {
				made.Add(1)
			}
		})
	}
	all.Wait()
	if n := made.Load(); n != 1 {
		t.Errorf("%d were made, and there was room for 1", n)
	}
	for range 3 {
		ok(latch("ready", lockagentv1.LatchOp_LATCH_OP_DOWN))
	}
	ok(latch("more", lockagentv1.LatchOp_LATCH_OP_SET))
}

// A connection that is one too many is closed. Whoever looks after the daemon has a few more.
func TestConnectionsAreLimited(t *testing.T) {
	limited := withLimits(t, access.Limits{Connections: 2})
	d := run(t, func(cfg *Config) { cfg.Access = limited })
	works := func() (closed func(), ok bool) {
		c := clientOver(httpClient(t, d.path, 1))
		_, err := c.Check(background, &lockagentv1.CheckRequest{Name: "door"})
		return c.http.CloseIdleConnections, err == nil
	}
	closers := make([]func(), 2+access.Reserve)
	for i := range closers {
		closed, ok := works()
		if closers[i] = closed; !ok {
			t.Fatalf("connection %d is refused", i+1)
		}
	}
	if _, ok := works(); ok {
		t.Error("there is no limit")
	}
	if all := limited.Refusals(); len(all) != 1 || all[0].Reason != "connections" || all[0].Count == 0 {
		t.Errorf("the refusals are %v", all)
	}
	closers[0]()
	for _, ok := works(); !ok; _, ok = works() { // until the daemon has seen that the other one has ended
		if t.Context().Err() != nil {
			t.Fatal("its place stays taken")
		}
	}
}

// A request that is too large is refused in every protocol, whether it is a call or a stream.
func TestRequestsAreLimited(t *testing.T) {
	const most = 4096
	d := run(t, func(cfg *Config) { cfg.MaxRequest = most })
	for kind, c := range d.clients(t) {
		t.Run(kind, func(t *testing.T) {
			for what, ask := range map[string]func(size int) error{
				"a call": func(size int) error {
					_, err := c.Release(background, &lockagentv1.ReleaseRequest{Claim: strings.Repeat("x", size)})
					return err
				},
				"a stream": func(size int) error {
					end, err := firstOf(t, func(ctx context.Context) (*connect.ServerStreamForClient[lockagentv1.ClaimEvent], error) {
						return c.Acquire(ctx, &lockagentv1.AcquireRequest{Name: "door", Command: strings.Repeat("x", size)})
					})
					end()
					return err
				},
			} {
				if err := ask(most - 100); connect.CodeOf(err) == connect.CodeResourceExhausted {
					t.Errorf("%s that is large enough: %v", what, err)
				}
				if err := ask(most + 100); connect.CodeOf(err) != connect.CodeResourceExhausted {
					t.Errorf("%s that is too large: %v", what, err)
				}
			}
		})
	}
}

// The configuration allows no limit by which the largest request for a claim would be refused.
func TestTheLargestRequestIsTaken(t *testing.T) {
	d := run(t, func(cfg *Config) { cfg.MaxRequest = config.MinRequestSize })
	long := func(n int) string { return strings.Repeat("x", n) }
	labels := make(map[string]string)
	for i := range claims.MaxLabels {
		labels[fmt.Sprintf("%0*d", claims.MaxLabelLen, i)] = long(claims.MaxLabelLen)
	}
	d.client(t).acquire(t, &lockagentv1.AcquireRequest{
		Name: long(lockagent.MaxNameLen), Session: long(refusal.MaxSession), Secret: long(claims.MaxSecret),
		Command: long(claims.MaxCommand), Labels: labels,
		Kind: lockagentv1.Kind_KIND_PLAIN, Mode: lockagentv1.Mode_MODE_EXCLUSIVE, Wait: durationpb.New(lockagent.MaxLease),
		Lease: durationpb.New(lockagent.MaxLease), Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		Outlive: true, NoReentry: true,
	}).granted()
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

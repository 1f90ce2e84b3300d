//go:build linux

package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/bootclock"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	"github.com/lockagent/lockagent/internal/machinetest"
	"github.com/lockagent/lockagent/internal/waittest"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

func TestEveryClientCanLock(t *testing.T) {
	d := run(t)
	for name, c := range d.clients(t) {
		t.Run(name, func(t *testing.T) {
			before := bootclock.Now()
			first := c.acquire(t, &lockagentv1.AcquireRequest{Name: "door"})
			g := first.granted()
			if at := time.Duration(g.GetDeadline().GetBoottime()); g.GetToken() == 0 || g.GetClaim() == "" ||
				g.GetSecret() == "" || at < before || at > before+time.Hour || g.GetDeadline().GetBootId() != bootclock.ID() {
				t.Errorf("%v", g)
			}
			second := c.acquire(t, &lockagentv1.AcquireRequest{Name: "door"})
			if q := second.queued(); q.GetHolder() != g.GetClaim() {
				t.Errorf("%v", q)
			}
			first.end() // as a client does that goes away
			h := second.granted()
			if h.GetToken() <= g.GetToken() || h.GetWaited().AsDuration() <= 0 {
				t.Errorf("%v after %v", h, g)
			}
			r, err := c.Release(background, &lockagentv1.ReleaseRequest{Claim: h.GetClaim(), Secret: h.GetSecret()})
			if err != nil || !r.GetEnded() {
				t.Errorf("%v, %v", r, err)
			}
			if e := second.ended(); e.GetReleased() == nil {
				t.Errorf("%v", e)
			}
			if r, err := c.Release(
				background, &lockagentv1.ReleaseRequest{Claim: h.GetClaim(), Secret: h.GetSecret()},
			); err != nil || r.GetEnded() {
				t.Errorf("%v, %v", r, err)
			}
		})
	}
}

// gRPC's own client, and its health service.
func TestGRPC(t *testing.T) {
	t.Parallel()
	d := run(t)
	conn, err := grpc.NewClient("unix:"+d.path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx := waittest.Context(t)
	acquire := func(ctx context.Context) *lockagentv1.ClaimEvent {
		t.Helper()
		s, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/lockagent.v1.LockService/Acquire")
		if err != nil {
			t.Fatal(err)
		}
		e := new(lockagentv1.ClaimEvent)
		if err := errors.Join(s.SendMsg(&lockagentv1.AcquireRequest{Name: "door"}), s.CloseSend(), s.RecvMsg(e)); err != nil {
			t.Fatal(err)
		}
		if e.GetQueued() != nil {
			if err := s.RecvMsg(e); err != nil {
				t.Fatal(err)
			}
		}
		return e
	}
	first, leave := context.WithCancel(ctx)
	defer leave()
	if e := acquire(first); e.GetGranted() == nil {
		t.Fatal(e)
	}
	leave()
	if e := acquire(ctx); e.GetGranted() == nil {
		t.Fatal(e)
	}

	health := healthv1.NewHealthClient(conn)
	serves := func(service string, want healthv1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		if r, err := health.Check(ctx, &healthv1.HealthCheckRequest{Service: service}); err != nil || r.GetStatus() != want {
			t.Errorf("%q: %v, %v, want %v", service, r, err, want)
		}
	}
	serves("", healthv1.HealthCheckResponse_SERVING)
	serves("lockagent.v1.LockService", healthv1.HealthCheckResponse_SERVING)
	if _, err := health.Check(ctx, &healthv1.HealthCheckRequest{Service: "other"}); err == nil {
		t.Error("another service is healthy")
	}
	watch, err := health.Watch(ctx, &healthv1.HealthCheckRequest{Service: "lockagent.v1.LockService"})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := watch.Recv(); err != nil || r.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("%v, %v", r, err)
	}
	d.book.Drain(0)
	serves("", healthv1.HealthCheckResponse_SERVING)
	serves("lockagent.v1.LockService", healthv1.HealthCheckResponse_NOT_SERVING)
	if r, err := watch.Recv(); err != nil || r.GetStatus() != healthv1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("%v, %v", r, err)
	}
}

func TestHealthWithoutAStore(t *testing.T) {
	d := run(t)
	d.store.SetOutage(lockagent.ErrStoreUnavailable)
	if err := d.Ready(background); !errors.Is(err, lockagent.ErrStoreUnavailable) {
		t.Errorf("ready: %v", err)
	}
	d.store.SetOutage(nil)
}

func TestCurl(t *testing.T) {
	curl, err := exec.LookPath("curl")
	machinetest.Needs(t, err)
	d := run(t)
	d.client(t).acquire(t, &lockagentv1.AcquireRequest{Name: "door", Command: "make"}).granted()
	call := func(procedure, body string) (answer map[string]any) {
		t.Helper()
		out, err := exec.Command(
			curl, "--silent", "--show-error", "--unix-socket", d.path, "--json", body, "http://localhost/"+procedure,
		).Output()
		if err == nil {
			err = json.Unmarshal(out, &answer)
		}
		if err != nil {
			t.Fatalf("%s: %v: %s", procedure, err, out)
		}
		return answer
	}
	if got := fmt.Sprint(call("lockagent.v1.LookService/List", "{}")); !strings.Contains(got, "name:door") ||
		!strings.Contains(got, "command:make") || !strings.Contains(got, "state:STATE_HELD") {
		t.Error(got)
	}
	if got := fmt.Sprint(call("lockagent.v1.LockService/Release", `{"claim":"x"}`)); got != "map[]" {
		t.Error(got)
	}
	if got := fmt.Sprint(call("grpc.health.v1.Health/Check", `{}`)); got != "map[status:SERVING]" {
		t.Error(got)
	}
	if got := fmt.Sprint(
		call("lockagent.v1.LookService/List", `{"pageSize":-1}`),
	); !strings.Contains(got, "code:invalid_argument") || !strings.Contains(got, "page_size") {
		t.Error(got)
	}
}

func TestDenialsAndRefusalsKeepTheirErrors(t *testing.T) {
	d := run(t)
	for name, c := range d.clients(t) {
		t.Run(name, func(t *testing.T) {
			lock := name + "/door"
			g := c.acquire(t, &lockagentv1.AcquireRequest{Name: lock}).granted()
			denied := wire.ToError(c.acquire(t, &lockagentv1.AcquireRequest{Name: lock, Try: true}).ended().GetDenied())
			if held, ok := errors.AsType[*lockagent.HeldError](denied); !ok || held.Holder != g.GetClaim() ||
				held.Name != lockagent.Name(lock) {
				t.Errorf("%#v", denied)
			}
			denied = wire.ToError(
				c.acquire(t, &lockagentv1.AcquireRequest{Name: lock, Wait: durationpb.New(time.Millisecond)}).ended().GetDenied(),
			)
			if late, ok := errors.AsType[*lockagent.WaitError](denied); !ok || !errors.Is(denied, lockagent.ErrTimeout) ||
				late.Holder != g.GetClaim() {
				t.Errorf("%#v", denied)
			}
			refused := func(req *lockagentv1.AcquireRequest, option string) {
				t.Helper()
				s, err := c.Acquire(background, req)
				if err == nil {
					s.Receive()
					err = s.Err()
					_ = s.Close()
				}
				bad, ok := errors.AsType[*lockagent.OptionError](wire.Refused(err))
				if !ok || bad.Option != option || connect.CodeOf(err) != connect.CodeInvalidArgument {
					t.Errorf("%s: %v", option, err)
				}
			}
			refused(&lockagentv1.AcquireRequest{Name: lock, Detach: true}, "detach")
			refused(&lockagentv1.AcquireRequest{Name: lock, Wait: durationpb.New(0)}, "wait")
			refused(&lockagentv1.AcquireRequest{Name: lock, Wait: durationpb.New(-1)}, "wait")
			if e := c.acquire(
				t, &lockagentv1.AcquireRequest{Name: "a}b"},
			).ended(); e.GetDenied().GetReason() != lockagentv1.Reason_REASON_BAD_NAME {
				t.Errorf("%v", e)
			}
			if e := c.acquire(
				t, &lockagentv1.AcquireRequest{Name: "x", Kind: 99},
			).ended(); e.GetDenied().GetReason() != lockagentv1.Reason_REASON_BAD_OPTION {
				t.Errorf("%v", e)
			}
			_, err := c.Release(background, &lockagentv1.ReleaseRequest{Claim: g.GetClaim(), Secret: "guess"})
			if !errors.Is(wire.Refused(err), refusal.ErrNoClaim) {
				t.Error(err)
			}
		})
	}
}

func TestDetachedClaim(t *testing.T) {
	d := run(t)
	c := d.client(t)
	s := c.acquire(t, &lockagentv1.AcquireRequest{Name: "door", Detach: true, Ttl: durationpb.New(time.Hour)})
	g := s.granted()
	if s.events.Receive() || s.events.Err() != nil {
		t.Fatalf("after the grant: %v, %v", s.events.Msg(), s.events.Err())
	}
	s.end()
	now := bootclock.Now()
	r, err := c.Renew(background, &lockagentv1.RenewRequest{
		Claim: g.GetClaim(), Secret: g.GetSecret(), Ttl: durationpb.New(time.Minute),
	})
	if at := time.Duration(r.GetExpires().GetBoottime()); err != nil || at < now+time.Minute ||
		at > bootclock.Now()+time.Minute || r.GetDeadline() == nil {
		t.Errorf("%v, %v", r, err)
	}
	check, err := c.Check(background, &lockagentv1.CheckRequest{Name: "door", Token: g.GetToken()})
	if err != nil || !check.GetCurrent() || !check.GetHeld() {
		t.Errorf("%v, %v", check, err)
	}
	if check, err := c.Check(background, &lockagentv1.CheckRequest{Name: "door", Token: g.GetToken() + 1}); err != nil ||
		check.GetCurrent() {
		t.Errorf("%v, %v", check, err)
	}
	again := c.attach(t, g.GetClaim(), g.GetSecret())
	if h := again.granted(); h.GetToken() != g.GetToken() {
		t.Errorf("%v", h)
	}
	again.end()
	c.acquire(t, &lockagentv1.AcquireRequest{Name: "door"}).granted()
}

func TestLook(t *testing.T) {
	d := run(t)
	c := d.client(t)
	for _, name := range []string{"a/1", "a/b/2", "c"} {
		c.acquire(t, &lockagentv1.AcquireRequest{
			Name: name, Session: "job", Labels: map[string]string{"ticket": "7"},
		}).granted()
	}
	c.acquire(t, &lockagentv1.AcquireRequest{Name: "c"}).queued()
	list := func(pattern string, size int32) (names []string) {
		t.Helper()
		token := ""
		for {
			page, err := c.look.List(background, &lockagentv1.ListRequest{Pattern: pattern, PageSize: size, PageToken: token})
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range page.GetLocks() {
				names = append(names, l.GetName())
			}
			if token = page.GetNextPageToken(); token == "" {
				return names
			}
		}
	}
	for pattern, want := range map[string][]string{
		"": {"a/1", "a/b/2", "c"}, "a/*": {"a/1"}, "a/**": {"a/1", "a/b/2"}, "**": {"a/1", "a/b/2", "c"}, "[c]": nil,
	} {
		for size := range int32(4) {
			if got := list(pattern, size); !slices.Equal(got, want) {
				t.Errorf("%q: %q, want %q", pattern, got, want)
			}
		}
	}
	for name, want := range map[string]int{"c": 1, "a/*": 0, "d": 0} {
		page, err := c.look.List(background, &lockagentv1.ListRequest{Name: name})
		if err != nil || len(page.GetLocks()) != want || want > 0 && page.GetLocks()[0].GetName() != name {
			t.Errorf("%q: %v, %v", name, page, err)
		}
	}
	if _, err := c.look.List(
		background, &lockagentv1.ListRequest{Name: "c", Pattern: "**"},
	); !errors.Is(wire.Refused(err), lockagent.ErrBadOption) {
		t.Errorf("a name and a pattern: %v", err)
	}
	got, err := c.look.Get(background, &lockagentv1.GetRequest{Name: "c"})
	if err != nil {
		t.Fatal(err)
	}
	l := got.GetLock()
	h, w := l.GetHolders()[0], l.GetWaiters()[0]
	if !got.GetHeld() || got.GetHolder() == "" || got.GetRemaining().AsDuration() <= 0 || l.GetHeld() != 1 ||
		l.GetWaiting() != 1 || l.GetKind() != lockagentv1.Kind_KIND_PLAIN {
		t.Errorf("%v", got)
	}
	me, _ := client(own(t, d))
	if p := h.GetClient(); int(p.GetPid()) != me.PID || p.GetUid() != me.UID || p.GetProgram() != me.Program ||
		p.GetUser() == "" {
		t.Errorf("the holder is %v", p)
	}
	if h.GetState() != lockagentv1.State_STATE_HELD || h.GetToken() == 0 || h.GetSince() == nil || h.GetLeft() == nil ||
		h.GetSession() != "job" || h.GetLabels()["ticket"] != "7" {
		t.Errorf("%v", h)
	}
	if w.GetState() != lockagentv1.State_STATE_WAITING || w.GetToken() != 0 {
		t.Errorf("%v", w)
	}
}

// own is the context of a connection of this process to the daemon.
func own(t *testing.T, d *running) context.Context {
	t.Helper()
	conn, err := net.Dial("unix", d.path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	return d.server.ConnContext(background, conn) // both ends are of this process
}

func TestWatch(t *testing.T) {
	d := run(t)
	c := d.client(t)
	holder := c.acquire(t, &lockagentv1.AcquireRequest{Name: "a/1"})
	holder.granted()
	ctx := waittest.Context(t)
	events, err := c.look.Watch(ctx, &lockagentv1.WatchRequest{Pattern: "a/*"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = events.Close() }()
	// until reads until an event is as wanted.
	until := func(what string, is func(*lockagentv1.WatchEvent) bool) {
		t.Helper()
		for events.Receive() {
			if is(events.Msg()) {
				return
			}
		}
		t.Fatalf("%s: %v", what, events.Err())
	}
	until("the lock that is held", func(e *lockagentv1.WatchEvent) bool {
		return e.GetLock().GetName() == "a/1" && e.GetLock().GetHeld() == 1
	})
	until("the end of the first look", func(e *lockagentv1.WatchEvent) bool { return e.GetLive() != nil })
	c.acquire(t, &lockagentv1.AcquireRequest{Name: "b"}).granted()
	c.acquire(t, &lockagentv1.AcquireRequest{Name: "a/2"}).granted()
	until("a lock that somebody acquired", func(e *lockagentv1.WatchEvent) bool {
		if e.GetLock().GetName() == "b" {
			t.Error("b does not match")
		}
		return e.GetLock().GetName() == "a/2"
	})
	holder.end()
	until("a lock that nobody uses any more", func(e *lockagentv1.WatchEvent) bool {
		l := e.GetLock()
		return l.GetName() == "a/1" && l.GetHeld()+l.GetWaiting() == 0
	})
}

func TestOperate(t *testing.T) {
	d := run(t)
	c := d.client(t)
	s := c.acquire(t, &lockagentv1.AcquireRequest{Name: "door"})
	g := s.granted()
	if _, err := c.operate.Break(
		background, &lockagentv1.BreakRequest{Name: "door", Token: g.GetToken() + 1},
	); !errors.Is(wire.Refused(err), lockagent.ErrNotHeld) {
		t.Error(err)
	}
	r, err := c.operate.Break(background, &lockagentv1.BreakRequest{Name: "door", Token: g.GetToken(), Reason: "stuck"})
	if err != nil || !r.GetBroken() {
		t.Errorf("%v, %v", r, err)
	}
	if lost := s.ended().GetLost(); lost.GetReason() != lockagentv1.LossReason_LOSS_REASON_BROKEN ||
		!strings.HasSuffix(lost.GetOperator(), ": stuck") || lost.GetToken() != g.GetToken() {
		t.Errorf("%v", lost)
	}
	// One reader of two.
	read := &lockagentv1.AcquireRequest{
		Name: "book", Kind: lockagentv1.Kind_KIND_READ_WRITE, Mode: lockagentv1.Mode_MODE_SHARED,
	}
	ann, bob := c.acquire(t, read), c.acquire(t, read)
	token := ann.granted().GetToken()
	bob.granted()
	if r, err := c.operate.Break(
		background, &lockagentv1.BreakRequest{Name: "book", Kind: read.GetKind(), Token: token},
	); err != nil || !r.GetBroken() {
		t.Errorf("%v, %v", r, err)
	}
	if lost := ann.ended().GetLost(); lost.GetReason() != lockagentv1.LossReason_LOSS_REASON_BROKEN {
		t.Errorf("%v", lost)
	}
	if n := d.Counts().Held; n != 1 {
		t.Errorf("%d readers are left", n)
	}
	bob.end()
	waittest.Until(t, "the daemon knows that bob has gone", func() bool { return d.Counts().Held == 0 })

	s = c.acquire(t, &lockagentv1.AcquireRequest{Name: "door"})
	s.granted()
	if _, err := c.operate.Drain(
		background, &lockagentv1.DrainRequest{Timeout: durationpb.New(2 * time.Hour)},
	); !errors.Is(wire.Refused(err), lockagent.ErrBadOption) {
		t.Error(err)
	}
	if left, err := c.operate.Drain(background, &lockagentv1.DrainRequest{}); err != nil || left.GetLeft() != 1 {
		t.Errorf("%v, %v", left, err)
	}
	if e := s.next(); e.GetDraining() == nil {
		t.Errorf("%v", e)
	}
	refused, err := c.Acquire(background, &lockagentv1.AcquireRequest{Name: "desk"})
	if err == nil {
		refused.Receive()
		err = refused.Err()
		_ = refused.Close()
	}
	if !errors.Is(wire.Refused(err), refusal.ErrDraining) || connect.CodeOf(err) != connect.CodeUnavailable {
		t.Error(err)
	}
	if _, err := c.operate.Drain(
		background, &lockagentv1.DrainRequest{Undo: true, Timeout: durationpb.New(time.Minute)},
	); !errors.Is(wire.Refused(err), lockagent.ErrBadOption) {
		t.Error(err)
	}
	if r, err := c.operate.Drain(background, &lockagentv1.DrainRequest{Undo: true}); err != nil || !r.GetUndone() ||
		r.GetLeft() != 1 {
		t.Errorf("%v, %v", r, err)
	}
	again := c.acquire(t, &lockagentv1.AcquireRequest{Name: "desk"})
	again.granted()
	again.end()
	s.end()
	if left, err := c.operate.Drain(
		background, &lockagentv1.DrainRequest{Timeout: durationpb.New(time.Minute)},
	); err != nil || left.GetLeft() != 0 || left.GetUndone() {
		t.Errorf("%v, %v", left, err)
	}
	d.book.End(0)
	if _, err := c.operate.Drain(
		background, &lockagentv1.DrainRequest{Undo: true},
	); !errors.Is(wire.Refused(err), refusal.ErrDraining) {
		t.Error(err)
	}
}

func TestShutdownTellsHoldersAndWaiters(t *testing.T) {
	d := run(t)
	for name, c := range d.clients(t) {
		holder := c.acquire(t, &lockagentv1.AcquireRequest{Name: name})
		waiter := c.acquire(t, &lockagentv1.AcquireRequest{Name: name})
		holder.granted()
		waiter.queued()
		watch, err := c.look.Watch(background, &lockagentv1.WatchRequest{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = watch.Close() }()
		defer func() {
			if e := holder.ended().GetLost(); e.GetReason() != lockagentv1.LossReason_LOSS_REASON_CLOSED {
				t.Errorf("%s: %v", name, e)
			}
			if e := waiter.ended().GetDenied(); e.GetReason() != lockagentv1.Reason_REASON_CLOSED {
				t.Errorf("%s: %v", name, e)
			}
		}()
	}
	ctx, cancel := context.WithCancel(background)
	cancel()
	if err := d.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("unix", d.path); err == nil {
		t.Error("somebody can connect")
	}
}

func TestBadRequestsHarmNobody(t *testing.T) {
	d := run(t)
	c := d.client(t)
	s := c.acquire(t, &lockagentv1.AcquireRequest{Name: "door"})
	g := s.granted()
	post := func(version int, path, kind string, body io.Reader) (status int) {
		t.Helper()
		r, err := httpClient(t, d.path, version).Post(baseURL+path, kind, body)
		if err != nil {
			return 0 // the connection was ended
		}
		defer func() { _ = r.Body.Close() }()
		_, _ = io.Copy(io.Discard, r.Body)
		return r.StatusCode
	}
	for version := 1; version <= 2; version++ {
		for _, path := range []string{
			"/", "/lockagent.v1.LockService/Acquire", "/lockagent.v1.LockService/Release", "/lockagent.v1.LookService/List",
			"/grpc.health.v1.Health/Check",
		} {
			for _, kind := range []string{
				"application/json", "application/proto", "application/connect+proto", "application/connect+json",
				"application/grpc", "application/grpc-web", "text/plain",
			} {
				post(version, path, kind, strings.NewReader("\x00\x00\x00\x00\x05hello"))
				post(version, path, kind, strings.NewReader("\x00\xff\xff\xff\xff"))
				post(version, path, kind, http.NoBody)
			}
		}
		huge := `{"claim":"` + strings.Repeat("x", 1<<20) + `"}`
		if status := post(
			version, "/lockagent.v1.LockService/Release", "application/json", strings.NewReader(huge),
		); status == http.StatusOK {
			t.Error("a huge request was served")
		}
	}
	conn, err := net.Dial("unix", d.path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	go func() { _, _ = io.Copy(conn, strings.NewReader("GET / HTTP/1.1\r\nX: "+strings.Repeat("x", 1<<20))) }()
	if answer, _ := io.ReadAll(conn); !strings.Contains(string(answer), " 431 ") {
		t.Errorf("a huge header: %.64q", answer)
	}
	if r, err := c.Release(
		background, &lockagentv1.ReleaseRequest{Claim: g.GetClaim(), Secret: g.GetSecret()},
	); err != nil || !r.GetEnded() {
		t.Errorf("%v, %v", r, err)
	}
}

// A client that does not finish its request is sent away, and one whose stream lasts longer is not.
func TestBoundsOfTime(t *testing.T) {
	const head = " HTTP/1.1\r\nHost: x\r\nContent-Type: application/"
	synctest.Test(t, func(t *testing.T) {
		b := besiege(t)
		a, acquire := b.client(fuzzerUID), procedureOf(lockagentv1connect.LockServiceAcquireProcedure)
		var streams []*fuzzCall
		for i, p := range protocols {
			streams = append(
				streams,
				a.post(p, acquire, bytes.NewReader(p.body(acquire, &lockagentv1.AcquireRequest{Name: fmt.Sprint("mine/", i)}))),
			)
		}
		for begun, want := range map[string]string{
			"POST /lockagent.v1.LockService/Release HTTP/1.1\r\n": "",
			"POST /lockagent.v1.LockService/Release" + head +
				"json\r\nContent-Length: 10\r\n\r\n{": "deadline_exceeded",
			"POST /lockagent.v1.LockService/Acquire" + head +
				"connect+json\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n\x00": "deadline_exceeded",
		} {
			if answer, _ := io.ReadAll(b.mute([]byte(begun))); !strings.Contains(string(answer), want) {
				t.Errorf("%q: %q", begun, answer)
			}
		}
		time.Sleep(2 * defaultRead)
		for i, s := range streams {
			before := len(s.beginning())
			<-b.d.agent.Break(lockagent.Name(fmt.Sprint("mine/", i)), "", "root")
			synctest.Wait()
			if said := s.beginning(); before == 0 || len(said) == before {
				t.Errorf("the stream %d says %q", i, said)
			}
		}
		a.end()
		b.gone()
		b.end()
	})
}

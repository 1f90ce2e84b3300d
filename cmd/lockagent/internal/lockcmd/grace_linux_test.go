package lockcmd

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/client"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// forgetful is a daemon whose store waits for the holders of before.
type forgetful struct {
	lockagentv1connect.UnimplementedLockServiceHandler
}

func (forgetful) Acquire(
	_ context.Context, req *lockagentv1.AcquireRequest, s *connect.ServerStream[lockagentv1.ClaimEvent],
) error {
	grace := &lockagent.GraceError{Name: lockagent.Name(req.GetName()), Left: 1200 * time.Millisecond}
	var err error = grace
	if !req.GetTry() {
		err = &lockagent.WaitError{
			Name: grace.Name, Waited: time.Second, TimedOut: true, Err: lockagent.ErrTimeout, Store: grace,
		}
	}
	denied, _ := wire.FromError(err)
	return s.Send(&lockagentv1.ClaimEvent{Event: &lockagentv1.ClaimEvent_Ended{
		Ended: &lockagentv1.Ended{How: &lockagentv1.Ended_Denied{Denied: denied}},
	}})
}

// forgetfulCounts is a daemon whose store has waited for the holders of before, for as long as two calls took.
type forgetfulCounts struct {
	lockagentv1connect.UnimplementedCountServiceHandler
	calls atomic.Int32
}

func (f *forgetfulCounts) Permits(
	_ context.Context, req *lockagentv1.PermitsRequest,
) (*lockagentv1.PermitsResponse, error) {
	if f.calls.Add(1) <= 2 {
		return nil, wire.Refuse(&lockagent.GraceError{Name: lockagent.Name(req.GetName()), Left: time.Second})
	}
	return &lockagentv1.PermitsResponse{Done: true, Exists: true, Free: req.GetN()}, nil
}

// serve has a daemon listen on a socket.
func serve(t *testing.T, service string, handler http.Handler) (path string) {
	t.Helper()
	path = socketPath(t)
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(service, handler)
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return path
}

// Nobody knows whether a lock is held while the store waits for the holders of before. So a request that does not wait
// is told to come again, as if the store were away, also if a held lock has a code of its own. One whose wait ends has
// not had the lock in time.
func TestALockInAGracePeriod(t *testing.T) {
	service, handler := lockagentv1connect.NewLockServiceHandler(forgetful{})
	path := serve(t, service, handler)
	const told = "waits for up to 1.2s for the holders to come back"
	for args, want := range map[string]int{
		"-n door true":         cli.ExitUnavailable,
		"-w 0 -E 0 door true":  cli.ExitUnavailable,
		"-w 1s door true":      cli.ExitFailed,
		"-w 1s -E 9 door true": 9,
	} {
		for verb, cmd := range map[string]*cobra.Command{"lock": NewLock(), "acquire --ttl 1m": NewAcquire()} {
			all := append(strings.Fields(verb)[1:], strings.Fields(args)...)
			if strings.HasPrefix(verb, "acquire") {
				all = all[:len(all)-1] // it runs no command
			}
			var out bytes.Buffer
			cmd.SetArgs(append([]string{"--socket", path}, all...))
			cmd.SetOut(&out)
			cmd.SetErr(&out)
			cmd.SilenceUsage, cmd.SilenceErrors = true, true
			err := cmd.ExecuteContext(t.Context())
			if cli.CodeOf(err) != want || err == nil || !strings.Contains(err.Error(), told) || out.Len() > 0 {
				t.Errorf("%s %s: exit code %d, want %d: %v, %s", verb, args, cli.CodeOf(err), want, err, &out)
			}
		}
	}
}

// The number of slots is not set while the store waits for the holders of before. A request that waits for the lock
// waits for that as well, and a try ends.
func TestSlotsInAGracePeriod(t *testing.T) {
	for what, c := range map[string]struct {
		req   *lockagentv1.AcquireRequest
		code  int
		calls int32
	}{
		"lock --slots":       {&lockagentv1.AcquireRequest{Name: "door"}, cli.ExitOK, 3},
		"lock --slots -w 1h": {&lockagentv1.AcquireRequest{Name: "door", Wait: durationpb.New(time.Hour)}, cli.ExitOK, 3},
		"lock --slots -n":    {&lockagentv1.AcquireRequest{Name: "door", Try: true}, cli.ExitUnavailable, 1},
	} {
		counts := &forgetfulCounts{}
		service, handler := lockagentv1connect.NewCountServiceHandler(counts)
		d := client.New(serve(t, service, handler))
		h := &holding{supervision: new(supervision), stderr: io.Discard, news: make(chan news), signals: make(chan os.Signal)}
		asked := acquiring(c.req)
		err := h.provide(d, "door", &asked, 2)
		if code := cli.CodeOf(err); code != c.code || counts.calls.Load() != c.calls {
			t.Errorf(
				"%s: exit code %d after %d calls, want %d after %d: %v", what, code, counts.calls.Load(), c.code, c.calls, err,
			)
		}
		h.leave()
		d.Close()
	}
}

// The verb slots waits as well.
func TestChangeOfSlotsInAGracePeriod(t *testing.T) {
	counts := &forgetfulCounts{}
	service, handler := lockagentv1connect.NewCountServiceHandler(counts)
	var out bytes.Buffer
	cmd := NewSlots()
	cmd.SetArgs([]string{"--socket", serve(t, service, handler), "door", "2"})
	cmd.SetOut(&out)
	if err := cmd.ExecuteContext(t.Context()); err != nil || out.String() != "2\n" || counts.calls.Load() != 3 {
		t.Errorf("%q after %d calls: %v", &out, counts.calls.Load(), err)
	}
}

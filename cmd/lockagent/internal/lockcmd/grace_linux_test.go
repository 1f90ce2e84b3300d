package lockcmd

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
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

// start has the daemon listen on a socket.
func (f forgetful) start(t *testing.T) (path string) {
	t.Helper()
	path = socketPath(t)
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(lockagentv1connect.NewLockServiceHandler(f))
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return path
}

// Nobody knows whether a lock is held while the store waits for the holders of before. So a request that does not wait
// is told to come again, as if the store were away, also if a held lock has a code of its own. One whose wait ends has
// not had the lock in time.
func TestALockInAGracePeriod(t *testing.T) {
	path := forgetful{}.start(t)
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

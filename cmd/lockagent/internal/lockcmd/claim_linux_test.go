//go:build linux

package lockcmd

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/client"
	"github.com/lockagent/lockagent/internal/bootclock"
	"github.com/lockagent/lockagent/internal/daemon/follow"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// A verb repeats its request for as long as the user would wait for the lock. It gives up sooner if no daemon comes.
func TestPatience(t *testing.T) {
	d := &client.Daemon{Path: "x"}
	var (
		drains    = d.Failed(wire.Refuse(refusal.ErrDraining))
		ends      = d.Failed(wire.Refuse(lockagent.ErrClosed))
		broken    = d.Failed(connect.NewError(connect.CodeUnavailable, io.ErrUnexpectedEOF))
		nobody    = d.Failed(connect.NewError(connect.CodeUnavailable, syscall.ECONNREFUSED))
		noSocket  = d.Failed(connect.NewError(connect.CodeUnavailable, fs.ErrNotExist))
		forbidden = d.Failed(connect.NewError(connect.CodeUnavailable, fs.ErrPermission))
		silent    = d.Failed(connect.NewError(connect.CodeDeadlineExceeded, context.DeadlineExceeded))
		unknown   = d.Failed(wire.Refuse(refusal.ErrNoClaim))
		full      = d.Failed(wire.Refuse(refusal.ErrJournal))
	)
	wait := func(d time.Duration) opening { return acquiring(&lockagentv1.AcquireRequest{Wait: durationpb.New(d)}) }
	for what, test := range map[string]struct {
		opening
		drains, away, unknown time.Duration
	}{
		"without end":  {acquiring(&lockagentv1.AcquireRequest{}), lockagent.MaxLease, awayTime, awayTime},
		"a short wait": {wait(time.Second), time.Second, time.Second, time.Second},
		"a long wait":  {wait(time.Hour), time.Hour, awayTime, awayTime},
		"no wait":      {acquiring(&lockagentv1.AcquireRequest{Try: true}), handOverTime, handOverTime, handOverTime},
		"attach":       {attaching("a", "b", false), lockagent.MaxLease, awayTime, 0}, // no daemon that drains refuses it
	} {
		for err, want := range map[error]time.Duration{
			drains: test.drains, ends: test.away, broken: test.away, nobody: test.away, unknown: test.unknown,
			noSocket: 0, forbidden: 0, silent: 0, full: 0,
		} {
			if got := test.patience(err); got != want {
				t.Errorf("%s: %v after %v, want %v", what, got, err, want)
			}
		}
	}
}

// A claim that holds its lock is attached to until its deadline, whatever happens to the daemon and its socket. It is
// over when a daemon says so.
func TestAHoldGoesOnUntilItsDeadline(t *testing.T) {
	noSocket := connect.NewError(connect.CodeUnavailable, fs.ErrNotExist)
	for what, test := range map[string]struct {
		left   time.Duration
		broken error
		over   error
	}{
		"the connection has ended": {time.Hour, io.ErrUnexpectedEOF, nil},
		"there is no socket":       {time.Hour, noSocket, nil},
		"the daemon ends":          {time.Hour, wire.Refuse(lockagent.ErrClosed), nil},
		"it has started anew":      {time.Hour, wire.Refuse(refusal.ErrNoClaim), lostClaim},
		"it forbids it":            {time.Hour, wire.Refuse(refusal.ErrForbidden), refusal.ErrForbidden},
		"the deadline has passed":  {0, noSocket, fs.ErrNotExist},
		"another one attaches":     {time.Hour, errDetached, errDetached},
	} {
		t.Run(what, func(t *testing.T) {
			ctx, leave := context.WithCancel(t.Context())
			leave() // nobody makes the next call
			c := &claimed{
				Claim: follow.Claim{ID: "a", Secret: "b", First: 7}, daemon: &client.Daemon{Path: "x"}, ctx: ctx,
				deadline: bootclock.Now() + test.left,
			}
			h := &holding{supervision: new(supervision), claims: []*claimed{c}}
			h.hear(news{of: c, broken: test.broken})
			if test.over == nil && (h.lost != nil || c.over != nil || c.attempts != 1) ||
				test.over != nil && (h.lost == nil || c.attempts != 0) ||
				errors.Is(test.over, lostClaim) && !errors.Is(h.lost, lostClaim) {
				t.Errorf("over by %v, lost by %v, after %d attempts", c.over, h.lost, c.attempts)
			}
		})
	}
}

// A daemon that waits for its store has as long to answer whoever does not want to wait as one that is away has to come
// back.
func TestTheTimeForAnAnswer(t *testing.T) {
	claim := attaching("a", "b", false)
	if left := claim.silence(); left <= awayTime || left > follow.AnswerTime {
		t.Errorf("whoever does not want to wait has %v for the answer", left)
	}
}

// asks is a daemon that notes what it is asked for.
type asks struct {
	lockagentv1connect.LockServiceClient
	waits []time.Duration
	lost  bool // the next answer to a release
}

func (a *asks) Acquire(
	_ context.Context, req *lockagentv1.AcquireRequest,
) (*connect.ServerStreamForClient[lockagentv1.ClaimEvent], error) {
	a.waits = append(a.waits, req.GetWait().AsDuration())
	return nil, lockagent.ErrClosed
}

// Release knows no such claim.
func (a *asks) Release(context.Context, *lockagentv1.ReleaseRequest) (*lockagentv1.ReleaseResponse, error) {
	if a.lost {
		a.lost = false
		return nil, connect.NewError(connect.CodeUnavailable, io.ErrUnexpectedEOF)
	}
	return &lockagentv1.ReleaseResponse{}, nil
}

// The answer that was lost may have said that the lock is released. So the next answer, that there is no claim, is no
// loss.
func TestTheAnswerToAReleaseIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for lost, want := range map[bool]error{true: nil, false: errOver} {
			d := &client.Daemon{Locks: &asks{lost: lost}}
			if err := release(t.Context(), d, &lockagentv1.ReleaseRequest{Claim: "a", Secret: "b"}); !errors.Is(err, want) {
				t.Errorf("an answer is lost %t: %v", lost, err)
			}
		}
	})
}

// A request that is made again asks for what is left of its wait.
func TestTheWaitOfARepeatedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a asks
		o := acquiring(&lockagentv1.AcquireRequest{Wait: durationpb.New(time.Minute)})
		for range 3 {
			if _, err := o.call(t.Context(), &a); err == nil {
				t.Fatal("no error")
			}
			time.Sleep(40 * time.Second)
		}
		if want := []time.Duration{time.Minute, 20 * time.Second, time.Millisecond}; !slices.Equal(a.waits, want) {
			t.Errorf("asked for %v, want %v", a.waits, want)
		}
	})
}

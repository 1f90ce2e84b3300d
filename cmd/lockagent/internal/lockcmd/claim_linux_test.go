//go:build linux

package lockcmd

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/client"
	"github.com/lockagent/lockagent/internal/bootclock"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// A verb repeats its request for as long as the user would wait for the lock. It gives up sooner if no daemon comes.
func TestPatience(t *testing.T) {
	asked := func(req *lockagentv1.AcquireRequest) opening { return acquiring(req) }
	wait := func(d time.Duration) opening { return asked(&lockagentv1.AcquireRequest{Wait: durationpb.New(d)}) }
	for what, test := range map[string]struct {
		opening
		drains, away time.Duration
	}{
		"without end":  {asked(&lockagentv1.AcquireRequest{}), lockagent.MaxLease, client.AwayTime},
		"a short wait": {wait(time.Second), time.Second, time.Second},
		"a long wait":  {wait(time.Hour), time.Hour, client.AwayTime},
		"no wait":      {asked(&lockagentv1.AcquireRequest{Try: true}), handOverTime, client.AwayTime},
		"attach":       {attaching("a", "b", false), handOverTime, client.AwayTime}, // no daemon that drains refuses it
	} {
		if drains, away := test.patience(true), test.patience(false); drains != test.drains || away != test.away {
			t.Errorf(
				"%s: %v while the daemon drains and %v while it is away, want %v and %v", what, drains, away,
				test.drains, test.away,
			)
		}
	}
}

// A daemon that waits for its store has as long to answer whoever does not want to wait as one that is away has to come
// back.
func TestTheTimeForAnAnswer(t *testing.T) {
	claim := attaching("a", "b", false)
	if left := claim.silence(); left <= client.AwayTime || left > client.AwayTime+lateness {
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
	for _, wait := range []time.Duration{time.Hour, 1} {
		var a asks
		o := acquiring(&lockagentv1.AcquireRequest{Wait: durationpb.New(wait)})
		for range 2 {
			for now := bootclock.Now(); bootclock.Now() == now; { // until the clock has moved on
			}
			if _, err := o.call(t.Context(), &a); err == nil {
				t.Fatal("no error")
			}
		}
		if first, second := a.waits[0], a.waits[1]; wait == 1 && (first != time.Millisecond || second != first) ||
			wait != 1 && (first >= wait || second >= first) {
			t.Errorf("a wait of %v: asked for %v", wait, a.waits)
		}
	}
}

package agentclient

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"

	"connectrpc.com/connect"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// answers is a daemon that gives these answers to those who wait for a latch.
type answers struct {
	lockagentv1connect.CountServiceClient
	left []error
}

func (a *answers) AwaitLatch(context.Context, *lockagentv1.AwaitLatchRequest) (*lockagentv1.AwaitLatchResponse, error) {
	next := a.left[0]
	a.left = a.left[1:]
	return nil, next
}

// Whoever waits for a latch waits on when a daemon ends, and when it says so.
func TestAwaitOutlastsTheDaemon(t *testing.T) {
	for what, test := range map[string]struct{ last, want error }{
		"the latch opens": {nil, nil},
		"the latch ends":  {wire.Refuse(lockagent.ErrLatchGone), lockagent.ErrLatchGone},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClocked()
				daemon := &answers{left: []error{
					connect.NewError(connect.CodeUnavailable, io.ErrUnexpectedEOF), wire.Refuse(lockagent.ErrClosed), test.last,
				}}
				c.rpc.count = daemon
				if err := <-c.Await(t.Context(), "latch", "", 0); !errors.Is(err, test.want) {
					t.Errorf("Await: %v, want %v", err, test.want)
				}
				if len(daemon.left) > 0 {
					t.Errorf("it did not hear %v", daemon.left)
				}
			})
		})
	}
}

//go:build linux

package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// silentTime is for how long a call waits for the answer of the daemon. A daemon that answers later than its store is
// slow, but well.
const silentTime = AwayTime + 2*time.Second

// unanswered is the error of a call that the daemon has not answered for so long.
type unanswered time.Duration

func (u unanswered) Error() string {
	return fmt.Sprintf("no answer within %v", readable.Duration(time.Duration(u)))
}

// bounded ends calls that a silent daemon does not answer, such as one that is stopped. Once a stream has begun, it may
// be quiet for any time. The daemon is not told of the bound: it would end the call with an error of its own at the
// same moment.
type bounded time.Duration

var _ connect.Interceptor = bounded(0)

// begin begins to wait. The context ends when the daemon has been silent for too long.
func (b bounded) begin(ctx context.Context, more time.Duration) (context.Context, context.CancelCauseFunc, *time.Timer) {
	ctx, cancel := context.WithCancelCause(ctx)
	patience := time.Duration(b) + more
	return ctx, cancel, time.AfterFunc(patience, func() { cancel(unanswered(patience)) })
}

// orUnanswered is the error of a call with that context.
func orUnanswered(ctx context.Context, err error) error {
	if u, ok := errors.AsType[unanswered](context.Cause(ctx)); ok && err != nil {
		return u
	}
	return err
}

// WrapUnary implements [connect.Interceptor].
func (b bounded) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		more := time.Duration(0)
		if drain, ok := req.Any().(*lockagentv1.DrainRequest); ok {
			more = drain.GetTimeout().AsDuration()
		}
		ctx, cancel, timer := b.begin(ctx, more)
		defer cancel(nil)
		defer timer.Stop()
		res, err := next(ctx, req)
		return res, orUnanswered(ctx, err)
	}
}

// WrapStreamingClient implements [connect.Interceptor].
func (b bounded) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		ctx, cancel, timer := b.begin(ctx, 0)
		return &boundedStream{next(ctx, spec), ctx, cancel, timer}
	}
}

// WrapStreamingHandler implements [connect.Interceptor].
func (bounded) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// boundedStream is a stream whose answer has to begin in time.
type boundedStream struct {
	connect.StreamingClientConn
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

func (s *boundedStream) Send(message any) error {
	return orUnanswered(s.ctx, s.StreamingClientConn.Send(message))
}

func (s *boundedStream) Receive(message any) error {
	s.ResponseHeader() // waits for the answer to begin
	s.timer.Stop()
	return orUnanswered(s.ctx, s.StreamingClientConn.Receive(message))
}

func (s *boundedStream) CloseResponse() error {
	defer s.cancel(nil)
	s.timer.Stop()
	return s.StreamingClientConn.CloseResponse()
}

// AwayTime is for how long a wait goes on without a daemon.
const AwayTime = 10 * time.Second

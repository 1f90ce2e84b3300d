package api

import (
	"context"

	"connectrpc.com/connect"

	"github.com/lockagent/lockagent/internal/daemon/wire"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// limited counts the streams of each user that are no claims, and refuses those that are too many. A call that waits
// for as long as its client likes is one of them.
type limited struct{ *Config }

var _ connect.Interceptor = limited{}

// countedOtherwise are the streams that the claims count, and those that need another stream to be there.
var countedOtherwise = map[string]bool{
	lockagentv1connect.LockServiceAcquireProcedure: true,
	lockagentv1connect.LockServiceAttachProcedure:  true,
	lockagentv1connect.LockServiceSubmitProcedure:  true,
}

// onlyWatch are the streams that only watch.
var onlyWatch = map[string]bool{
	lockagentv1connect.LookServiceWatchProcedure:   true,
	lockagentv1connect.LookServiceFollowProcedure:  true,
	lockagentv1connect.LookServiceReadLogProcedure: true,
	"/" + healthService + "/Watch":                 true,
}

// begin counts a stream. Call end when it is over.
func (l limited) begin(ctx context.Context, procedure string) (end func(), err error) {
	if countedOtherwise[procedure] {
		return func() {}, nil
	}
	client, err := l.client(ctx)
	if err == nil {
		end, err = l.Book.CountStream(client.UID, onlyWatch[procedure], l.Access.Limits())
		err = l.Access.Refused(ctx, err)
	}
	return end, wire.Refuse(err)
}

// WrapStreamingHandler implements [connect.Interceptor].
func (l limited) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		end, err := l.begin(ctx, conn.Spec().Procedure)
		if err != nil {
			return err
		}
		defer end()
		return next(ctx, conn)
	}
}

// WrapUnary implements [connect.Interceptor].
func (l limited) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if _, bound := writeTimes[req.Spec().Procedure]; !bound {
			return next(ctx, req)
		}
		end, err := l.begin(ctx, req.Spec().Procedure)
		if err != nil {
			return nil, err
		}
		defer end()
		return next(ctx, req)
	}
}

// WrapStreamingClient implements [connect.Interceptor]. There are no clients here.
func (l limited) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

package api

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// writeTime is for how long a call that is no stream may take, with its answer.
const writeTime = 30 * time.Second

// writeTimes are the paths that have other bounds. 0 is none: the answer of a stream may go on for ever, also if nobody reads it.
var writeTimes = map[string]time.Duration{
	lockagentv1connect.LockServiceAcquireProcedure:     0,
	lockagentv1connect.LockServiceAttachProcedure:      0,
	lockagentv1connect.LockServiceLinkProcedure:        0,
	lockagentv1connect.LockServiceSubmitProcedure:      0,
	lockagentv1connect.CountServiceAwaitLatchProcedure: 0,
	lockagentv1connect.LookServiceWatchProcedure:       0,
	lockagentv1connect.LookServiceFollowProcedure:      0,
	lockagentv1connect.OperateServiceDrainProcedure:    maxDrain + writeTime,
	"/" + healthService + "/Watch":                     0,
}

// bounded bounds how long a client may take to read the answer of a call. The server itself has one bound for all calls. Calls without a bound end
// with life.
func bounded(life context.Context, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bound, other := writeTimes[r.URL.Path]
		if !other {
			bound = writeTime
		}
		until := time.Time{}
		if bound != 0 {
			until = time.Now().Add(bound)
		}
		if bound == 0 {
			ctx, cancel := context.WithCancelCause(r.Context())
			defer cancel(nil)
			defer context.AfterFunc(life, func() { cancel(context.Cause(life)) })()
			r = r.WithContext(ctx)
		}
		control := http.NewResponseController(w)
		_ = control.SetWriteDeadline(until) // a connection that has no deadlines is none of ours
		if r.URL.Path == lockagentv1connect.LockServiceSubmitProcedure {
			// The request goes on for as long as the client likes, or the daemon, once it has said to which link it belongs.
			ctx := r.Context()
			r = r.WithContext(context.WithValue(ctx, unhurriedKey{}, func() {
				_ = control.SetReadDeadline(time.Time{})
				if ctx.Err() != nil { // perhaps it has ended just before
					_ = control.SetReadDeadline(time.Now())
				}
			}))
			defer untilEnd(ctx, func() { _ = control.SetReadDeadline(time.Now()) })()
		}
		next.ServeHTTP(w, r)
	})
}

// unhurriedKey is that of a function in the context of a Submit.
type unhurriedKey struct{}

// unhurried lets the request of a Submit go on without a bound of time.
func unhurried(ctx context.Context) {
	if f, ok := ctx.Value(unhurriedKey{}).(func()); ok {
		f()
	}
}

// untilEnd calls f if ctx ends before the function that it returns is called. That one waits for f.
func untilEnd(ctx context.Context, f func()) (stop func()) {
	var once sync.Once
	unwatch := context.AfterFunc(ctx, func() { once.Do(f) })
	return func() {
		unwatch()
		once.Do(func() {})
	}
}

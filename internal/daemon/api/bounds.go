package api

import (
	"context"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/lockagent/lockagent/internal/daemon/quota"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// writeTime is for how long a call that is no stream may take, with its answer.
const writeTime = 30 * time.Second

// bounds are those of the requests for a path.
type bounds struct {
	// time is for how long the request may take. 0 is none: the answer of a stream may go on for ever, also if nobody
	// reads it.
	time time.Duration
	// holds is what the client has while the request is under way.
	holds []quota.Kind
}

// What is under way: a call, and one that waits for as long as its client likes, or only watches.
var (
	aCall   = bounds{time: writeTime, holds: []quota.Kind{quota.Requests}}
	aStream = bounds{holds: []quota.Kind{quota.Requests, quota.Streams}}
	aWatch  = bounds{holds: []quota.Kind{quota.Requests, quota.Streams, quota.Watches}}
)

// boundsOf has the paths that are no plain calls. The claims count the streams of Acquire and Attach. A Submit needs a
// link, which counts as a stream.
var boundsOf = map[string]bounds{
	lockagentv1connect.LockServiceAcquireProcedure:     {holds: aCall.holds},
	lockagentv1connect.LockServiceAttachProcedure:      {holds: aCall.holds},
	lockagentv1connect.LockServiceSubmitProcedure:      {holds: aCall.holds},
	lockagentv1connect.LockServiceLinkProcedure:        aStream,
	lockagentv1connect.CountServiceAwaitLatchProcedure: aStream,
	lockagentv1connect.LookServiceWatchProcedure:       aWatch,
	lockagentv1connect.LookServiceReadLogProcedure:     aWatch,
	"/" + healthService + "/Watch":                     aWatch,
	lockagentv1connect.LookServiceListProcedure:        {writeTime, []quota.Kind{quota.Requests, quota.Lists}},
	lockagentv1connect.OperateServiceDrainProcedure:    {maxDrain + writeTime, aStream.holds},
}

// bounded bounds how many requests a user has under way, and how long a client may take to read the answer of a call.
// What a user has under way counts from the header of a request on: the rest of it may never come, and its answer may
// never be read. The server itself has one bound of time for all calls. Calls without such a bound end with the life of
// the daemon.
type bounded struct {
	*Config
	next   http.Handler
	errors *connect.ErrorWriter
}

// ServeHTTP implements [http.Handler].
func (b *bounded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	bounds, other := boundsOf[r.URL.Path]
	if !other {
		bounds = aCall
	}
	leave, err := b.Access.Hold(r.Context(), bounds.holds...)
	if err != nil {
		_ = control.SetWriteDeadline(time.Now().Add(writeTime)) // as below
		_ = b.errors.Write(w, r, wire.Refuse(err))              // an error is about a client that has gone
		return
	}
	defer leave()
	until := time.Time{}
	if bounds.time != 0 {
		until = time.Now().Add(bounds.time)
	} else {
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		defer context.AfterFunc(b.Life, func() { cancel(context.Cause(b.Life)) })()
		r = r.WithContext(ctx)
	}
	_ = control.SetWriteDeadline(until) // a connection that has no deadlines is none of ours
	if r.URL.Path == lockagentv1connect.LockServiceSubmitProcedure {
		// The request goes on for as long as the client likes, or the daemon, once it has said to which link it
		// belongs. From then on the link counts, which has no other one.
		ctx := r.Context()
		r = r.WithContext(context.WithValue(ctx, unhurriedKey{}, func() {
			leave()
			_ = control.SetReadDeadline(time.Time{})
			if ctx.Err() != nil { // perhaps it has ended just before
				_ = control.SetReadDeadline(time.Now())
			}
		}))
		defer untilEnd(ctx, func() { _ = control.SetReadDeadline(time.Now()) })()
	}
	b.next.ServeHTTP(w, r)
}

// unhurriedKey is that of a function in the context of a Submit.
type unhurriedKey struct{}

// unhurried lets the request of a Submit go on without a bound of time, and counts it no more.
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

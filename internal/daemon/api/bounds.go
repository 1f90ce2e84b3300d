package api

import (
	"context"
	"math"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/lockagent/lockagent/internal/daemon/wire"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// writeTime is for how long a call that is no stream may take, with its answer.
const writeTime = 30 * time.Second

// writeTimes are the paths that have other bounds. 0 is none: the answer of a stream may go on for ever, also if nobody
// reads it.
var writeTimes = map[string]time.Duration{
	lockagentv1connect.LockServiceAcquireProcedure:     0,
	lockagentv1connect.LockServiceAttachProcedure:      0,
	lockagentv1connect.LockServiceLinkProcedure:        0,
	lockagentv1connect.LockServiceSubmitProcedure:      0,
	lockagentv1connect.CountServiceAwaitLatchProcedure: 0,
	lockagentv1connect.LookServiceWatchProcedure:       0,
	lockagentv1connect.LookServiceFollowProcedure:      0,
	lockagentv1connect.LookServiceReadLogProcedure:     0,
	lockagentv1connect.OperateServiceDrainProcedure:    maxDrain + writeTime,
	"/" + healthService + "/Watch":                     0,
}

// What [underWay] counts.
const (
	requests = "requests"
	lists    = "lists of locks"
)

// reserve is how many requests a user may have beyond the limit of the streams, so that there are calls beside them.
const reserve = 1024

// nobody is the user of those whom the system does not tell.
const nobody = math.MaxUint32

// bounded bounds how many requests a user has under way, and how long a client may take to read the answer of a call.
// The server itself has one bound of time for all calls. Calls without such a bound end with the life of the daemon.
type bounded struct {
	*Config
	next     http.Handler
	errors   *connect.ErrorWriter
	underWay underWay
}

// ServeHTTP implements [http.Handler].
func (b *bounded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	end, err := b.begin(r)
	if err != nil {
		_ = control.SetWriteDeadline(time.Now().Add(writeTime))                   // as below
		_ = b.errors.Write(w, r, wire.Refuse(b.Access.Refused(r.Context(), err))) // an error is about a client that has gone
		return
	}
	defer end()
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
		defer context.AfterFunc(b.Life, func() { cancel(context.Cause(b.Life)) })()
		r = r.WithContext(ctx)
	}
	_ = control.SetWriteDeadline(until) // a connection that has no deadlines is none of ours
	if r.URL.Path == lockagentv1connect.LockServiceSubmitProcedure {
		// The request goes on for as long as the client likes, or the daemon, once it has said to which link it
		// belongs. From then on the link counts, which has no other one.
		ctx := r.Context()
		r = r.WithContext(context.WithValue(ctx, unhurriedKey{}, func() {
			end()
			_ = control.SetReadDeadline(time.Time{})
			if ctx.Err() != nil { // perhaps it has ended just before
				_ = control.SetReadDeadline(time.Now())
			}
		}))
		defer untilEnd(ctx, func() { _ = control.SetReadDeadline(time.Now()) })()
	}
	b.next.ServeHTTP(w, r)
}

// begin counts a request. Each list that is not read costs a page of memory, so of them there are as many as of streams
// that only watch.
func (b *bounded) begin(r *http.Request) (end func(), err error) {
	uid := uint32(nobody)
	if client, ok := b.Client(r.Context()); ok {
		uid = client.UID
	}
	limits := b.Access.Limits()
	most := limits.Streams
	if most > 0 {
		most += reserve
	}
	endRequest, err := b.underWay.begin(uid, requests, most)
	if err != nil || r.URL.Path != lockagentv1connect.LookServiceListProcedure {
		return endRequest, err
	}
	endList, err := b.underWay.begin(uid, lists, limits.Watches)
	if err != nil {
		endRequest()
		return nil, err
	}
	return func() {
		endList()
		endRequest()
	}, nil
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

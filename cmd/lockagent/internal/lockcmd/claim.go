//go:build linux

package lockcmd

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/client"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
	"github.com/lockagent/lockagent/internal/bootclock"
	"github.com/lockagent/lockagent/internal/daemon/follow"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// claimed is a claim with a connection of its own. A child can inherit the connection, and then keeps the claim. It
// belongs to whoever reads the news.
type claimed struct {
	follow.Claim
	daemon *client.Daemon
	name   lockagent.Name // empty before the grant, if the request was about a claim
	asked  opening

	conn    net.Conn // over which the grant came
	waited  time.Duration
	foreign error // why its deadlines mean nothing to this process
	over    error // why the claim is over

	deadline time.Duration // of the boot clock
	lease    time.Duration // the longest that was left
	late     bool          // no renewal came in time: the hold counts as lost, whatever the daemon says

	silent   time.Time // since when the daemon has told nothing of the claim; zero while it tells
	attempts int       // to reach it since then
	missed   bool      // whoever waits for the claim was told of that

	ctx   context.Context // until leave
	leave context.CancelFunc
}

// news is what comes over the connection of a claim. One of the fields behind conn is set.
type news struct {
	of      *claimed
	conn    net.Conn
	event   *lockagentv1.ClaimEvent
	broken  error // why the connection has ended, or why there was none
	unbound error // why the daemon does not know the process that works under the claim
}

// calling is a call whose answer is the stream of a claim.
type calling func(
	context.Context, lockagentv1connect.LockServiceClient,
) (*connect.ServerStreamForClient[lockagentv1.ClaimEvent], error)

// opening is a call that can be made again: then it is about the same claim.
type opening struct {
	call     calling
	began    time.Time
	wait     time.Duration // for which the claim may wait; 0 is without end
	try      bool          // it does not wait
	attaches bool          // the claim is there before
	detaches bool          // the claim goes on without its stream when the daemon tells that it is granted
	warns    bool          // the stream tells warnings
}

// acquiring asks for a claim.
func acquiring(req *lockagentv1.AcquireRequest) opening {
	req.Secret = rand.Text()
	o := opening{
		began: time.Now(), wait: req.GetWait().AsDuration(), try: req.GetTry(), detaches: req.GetDetach(),
		warns: req.GetWarn(),
	}
	o.call = func(
		ctx context.Context, c lockagentv1connect.LockServiceClient,
	) (*connect.ServerStreamForClient[lockagentv1.ClaimEvent], error) {
		if o.wait > 0 {
			req.Wait = durationpb.New(max(o.wait-time.Since(o.began), time.Millisecond))
		}
		return c.Acquire(ctx, req)
	}
	return o
}

func attaching(id, secret string, warn bool) opening {
	return opening{call: func(
		ctx context.Context, c lockagentv1connect.LockServiceClient,
	) (*connect.ServerStreamForClient[lockagentv1.ClaimEvent], error) {
		return c.Attach(ctx, &lockagentv1.AttachRequest{Claim: id, Secret: secret, Warn: warn})
	}, began: time.Now(), attaches: true, warns: warn}
}

const (
	// awayTime is for how long a wait goes on without a daemon, and a call about a claim is made again: claims outlast
	// their daemons.
	awayTime = 10 * time.Second
	// handOverTime is within what the next daemon listens, after one that has left its claims to it.
	handOverTime = 2 * time.Second
	// lateness is for how long after the end of a wait the daemon may say that it is over.
	lateness = 2 * time.Second
	// noticeTime is for how long there may be no daemon before somebody who waits for one is told.
	noticeTime = time.Second
)

// patience is for how long the call is repeated after an error.
func (o *opening) patience(err error) time.Duration {
	drains := errors.Is(err, refusal.ErrDraining)
	switch unknown := errors.Is(err, refusal.ErrNoClaim) && !o.attaches; {
	case !away(err) && !unknown:
		return 0
	case o.try: // a drain can last for hours, but a daemon that hands over to the next says the same
		return handOverTime
	case drains && o.wait == 0:
		return lockagent.MaxLease // without end
	case drains:
		return o.wait
	case o.wait == 0:
		return awayTime
	}
	return min(o.wait, awayTime)
}

// patience is for how long a call about a claim is repeated after an error.
func patience(err error) time.Duration { return (&opening{attaches: true}).patience(err) }

// away reports whether an error of the daemon client means that there is no daemon now, or that it is about to leave
// the claims to the next one.
func away(err error) bool {
	if _, never := errors.AsType[client.NoSocket](err); never {
		return false
	}
	return cli.CodeOf(err) == cli.ExitNoDaemon || follow.Leaves(err)
}

// silence is how much of the time for an answer is left. A daemon that starts takes the connection, and may wait for
// its store before it reads what is asked. It is negative for a request that waits without end.
func (o *opening) silence() time.Duration {
	switch {
	case o.try || o.attaches:
		return max(follow.AnswerTime-time.Since(o.began), 0)
	case o.wait > 0:
		return max(o.wait+lateness-time.Since(o.began), 0)
	}
	return -1
}

// silentFailure is the error of a daemon that has said nothing in the time that there was.
func silentFailure(d *client.Daemon, o *opening) error {
	return &cli.Failure{
		Code: cli.ExitUnavailable, Err: fmt.Errorf(
			"the daemon on %s has not answered within %v; it may be waiting for its store", d.Path,
			readable.Duration(time.Since(o.began)),
		),
		Try: "lockagent doctor    (says what is wrong)",
	}
}

// open begins a claim, of which there is news until it is left. The name may be empty if the call is about a claim.
func (h *holding) open(d *client.Daemon, name lockagent.Name, asked opening) *claimed {
	ctx, leave := context.WithCancel(context.Background())
	c := &claimed{daemon: d, name: name, asked: asked, silent: time.Now(), ctx: ctx, leave: leave}
	h.claims = append(h.claims, c)
	go c.converse(asked.call, 0, h.news)
	return c
}

// converse makes a call after a pause, and passes on what the daemon says. The connection carries nothing else, over
// HTTP/1.1. So whoever has the connection has the claim.
func (c *claimed) converse(call calling, pause time.Duration, to chan<- news) {
	pass := func(n news) {
		n.of = c
		select {
		case to <- n:
		case <-c.ctx.Done():
		}
	}
	select {
	case <-time.After(pause):
	case <-c.ctx.Done():
		return
	}
	conn, err := c.daemon.Dial(c.ctx)
	if err == nil {
		caller := &http.Client{Transport: &http.Transport{
			DialContext:       func(context.Context, string, string) (net.Conn, error) { return conn, nil },
			DisableKeepAlives: true,
		}}
		var s *connect.ServerStreamForClient[lockagentv1.ClaimEvent]
		if s, err = call(c.ctx, lockagentv1connect.NewLockServiceClient(caller, client.URL)); err == nil {
			for s.Receive() {
				pass(news{conn: conn, event: s.Msg()})
			}
			err = cmp.Or(s.Err(), error(errDetached))
			_ = s.Close()
		}
	}
	pass(news{broken: err})
}

// errDetached is how a stream ends whose claim goes on without it.
var errDetached = &cli.Failure{Code: cli.ExitLost, Err: errors.New("another process has attached to the claim")}

// lostClaim is how a hold ended of which the daemon knows nothing any more.
var lostClaim = &cli.Failure{Code: cli.ExitLost, Err: errors.New("the daemon has started anew without the claim")}

// hear notes what has become of a claim.
func (h *holding) hear(n news) {
	c := n.of
	switch {
	case n.unbound != nil:
		h.say("if this process is killed, the lock lasts only until the daemon is started anew: %s", cli.Plain(n.unbound))
	case n.broken != nil:
		h.goOn(c, n.broken)
	default:
		h.told(c, n)
	}
	if c.over != nil && c.First != 0 && h.lost == nil {
		if h.lost = c.over; errors.Is(c.over, refusal.ErrNoClaim) {
			h.lost = lostClaim
		}
	}
}

// told notes what the daemon tells of a claim.
func (h *holding) told(c *claimed, n news) {
	wanted := c.Wanted
	heard := c.Hear(n.event)
	c.silent, c.attempts, c.missed = time.Time{}, 0, false
	c.over = heard.Over
	c.deadline = max(c.deadline, heard.Until)
	c.lease = max(c.lease, heard.Until-bootclock.Now())
	if g := heard.Granted; g != nil {
		c.name, c.conn, c.waited = cmp.Or(c.name, lockagent.Name(g.GetLock())), n.conn, g.GetWaited().AsDuration()
		c.foreign = heard.Foreign
	}
	if q := n.event.GetQueued(); q != nil && h.verbose {
		holder := c.daemon.Holder(c.ctx, c.name, c.Holder)
		h.say("waiting for %s, held by %s, %d ahead on this host", c.shown(), holder, q.GetAhead())
	}
	if doubt := n.event.GetUncertain().GetReason(); doubt != "" {
		h.say("%s could not be renewed: %s", c.shown(), cli.OneLine(doubt))
	}
	if c.Wanted && !wanted {
		h.say("somebody waits for %s", c.shown())
	}
}

// goOn goes on with a claim whose connection has ended. The claim is over if it has been silent for too long, or if the
// daemon has said so.
func (h *holding) goOn(c *claimed, broken error) {
	if errors.Is(broken, errDetached) || c.asked.detaches && c.First != 0 {
		c.over = errDetached
		return
	}
	if c.silent.IsZero() {
		c.silent = time.Now()
	}
	err, call := c.daemon.Failed(broken), c.asked.call
	again := time.Since(c.silent) < c.asked.patience(err)
	if c.First != 0 {
		call = attaching(c.ID, c.Secret, c.asked.warns).call
		again = c.Again(follow.Told(broken)) && bootclock.Now() < c.deadline
	}
	if !again {
		c.over = err
		return
	}
	if c.First == 0 && !c.missed && time.Since(c.silent) >= noticeTime {
		fmt.Fprintf(h.stderr, "lockagent: %s; waiting for it\n", cli.Plain(err))
		c.missed = true
	}
	go c.converse(call, follow.Pause(c.attempts), h.news)
	c.attempts++
}

// release ends the claim, and waits until the lock is free or ctx ends. If keep is positive, the daemon holds the lock
// for that time, and nobody waits for the end. It returns [errOver] if the claim had ended before. A daemon that starts
// anew is asked again.
func (c *claimed) release(ctx context.Context, keep time.Duration) error {
	defer c.leave()
	lost := lockagentv1.LossReason_LOSS_REASON_UNSPECIFIED
	if c.late {
		lost = lockagentv1.LossReason_LOSS_REASON_DEADLINE
	}
	req := &lockagentv1.ReleaseRequest{Claim: c.ID, Secret: c.Secret, Lost: lost}
	if keep > 0 && !c.late {
		req.Keep = durationpb.New(max(keep, time.Millisecond))
	}
	return release(ctx, c.daemon, req)
}

// release ends a claim. See claimed.release.
func release(ctx context.Context, d *client.Daemon, req *lockagentv1.ReleaseRequest) error {
	ended, calls := false, 0
	err := follow.Repeat(ctx, patience, func() error {
		calls++
		r, err := d.Locks.Release(ctx, req)
		ended = r.GetEnded()
		return d.Failed(err)
	})
	if err == nil && !ended && calls == 1 { // otherwise the answer that was lost may have said so
		return errOver
	}
	return err
}

// errOver is the error of a release that was no more to be had.
var errOver = errors.New("the claim had ended before")

// releaseTime bounds how long the end of a command waits for all of its releases. The exit code is awaited by others. A
// daemon that is stopped, or is not there, sees later that the stream or the process has ended, and releases the lock
// then.
const releaseTime = 2 * time.Second

// firstInherited is the lowest number of a descriptor that a child inherits. Scripts use the lower ones.
const firstInherited = 10

// inheritable returns a descriptor of the claim's connection that the children of this process inherit. The error is
// [net.ErrClosed] if the connection has ended: then the claim lasts only as long as this process.
func (c *claimed) inheritable() (fd int, err error) {
	raw, err := c.conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	if failed := raw.Control(func(own uintptr) {
		fd, err = unix.FcntlInt(own, unix.F_DUPFD, firstInherited)
	}); failed != nil {
		return 0, failed
	}
	return fd, err
}

// connected reports whether the connection that children inherit is still that of the claim.
func (c *claimed) connected() bool {
	raw, err := c.conn.(*net.UnixConn).SyscallConn()
	return err == nil && raw.Control(func(uintptr) {}) == nil
}

// handle is what a claim is called in scripts: who has it can release the claim.
func (c *claimed) handle() string { return c.ID + "." + c.Secret }

// parseHandle takes a handle apart.
func parseHandle(text, try string) (id, secret string, err error) {
	id, secret, ok := strings.Cut(text, ".")
	if !ok || id == "" || secret == "" {
		return "", "", cli.Usage(try, "%q is no claim; lockagent acquire prints one", text)
	}
	return id, secret, nil
}

//go:build linux

package lockcmd

import (
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
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// claimed is a claim with a connection of its own. A child can inherit the connection, and then keeps the claim.
type claimed struct {
	daemon *client.Daemon
	// Only whoever reads the news uses it; empty before the grant, if the request was about a claim.
	name lockagent.Name

	// The loop that follows the claim writes these before it tells of the grant.
	conn       net.Conn // over which the grant came
	id, secret string
	token      lockagent.Token
	waited     time.Duration

	deadline time.Duration // of the boot clock; only whoever reads the news uses it, and the next
	lease    time.Duration // the longest that was left
	late     bool          // no renewal came in time: the hold counts as lost, whatever the daemon says

	warns             bool // the daemon is asked for warnings
	wanted, uncertain bool // its last one; only whoever reads the news uses them

	ctx   context.Context // until leave
	leave context.CancelFunc
}

// news is what has become of a claim. One of the fields behind of is set.
type news struct {
	of       *claimed
	queued   *lockagentv1.Queued
	granted  bool
	name     lockagent.Name // with granted, as the daemon tells it
	deadline time.Duration  // a new one, of the boot clock
	foreign  error          // with granted, why its deadlines mean nothing here
	doubt    string         // about the last renewal
	warning  *lockagentv1.Warning
	away     error // why there has been no daemon for a while
	unbound  error // why the daemon does not know the process that works under the claim
	ended    error // why the claim is over
	lost     bool  // with ended: it held its lock
}

// opening is the call whose answer is the claim's stream.
type opening struct {
	began time.Duration // by the boot clock
	wait  time.Duration // for which the claim may wait; 0 is without end
	try   bool          // it does not wait
	call  func(
		context.Context, lockagentv1connect.LockServiceClient,
	) (*connect.ServerStreamForClient[lockagentv1.ClaimEvent], error)
	detaches bool // the claim goes on without its stream when the daemon tells that it is granted
	warns    bool // the stream tells warnings
}

// acquiring asks for a claim. The call can be made again: then it is about the same claim.
func acquiring(req *lockagentv1.AcquireRequest) opening {
	req.Secret = rand.Text()
	began, wait := bootclock.Now(), req.GetWait().AsDuration()
	return opening{call: func(
		ctx context.Context, c lockagentv1connect.LockServiceClient,
	) (*connect.ServerStreamForClient[lockagentv1.ClaimEvent], error) {
		if wait > 0 {
			req.Wait = durationpb.New(max(began+wait-bootclock.Now(), time.Millisecond))
		}
		return c.Acquire(ctx, req)
	}, began: began, wait: wait, try: req.GetTry(), detaches: req.GetDetach(), warns: req.GetWarn()}
}

func attaching(id, secret string, warn bool) opening {
	return opening{call: func(
		ctx context.Context, c lockagentv1connect.LockServiceClient,
	) (*connect.ServerStreamForClient[lockagentv1.ClaimEvent], error) {
		return c.Attach(ctx, &lockagentv1.AttachRequest{Claim: id, Secret: secret, Warn: warn})
	}, began: bootclock.Now(), try: true, warns: warn}
}

// patience is for how long the call is repeated while the daemon is away, or drains.
func (o *opening) patience(drains bool) time.Duration {
	switch {
	case o.try && drains: // a drain can last for hours, but a daemon that hands over to the next says the same
		return handOverTime
	case o.try || !drains && o.wait == 0:
		return client.AwayTime
	case o.wait == 0:
		return lockagent.MaxLease // without end
	case drains:
		return o.wait
	}
	return min(o.wait, client.AwayTime)
}

// handOverTime is within what a daemon that leaves its claims to the next one is gone.
const handOverTime = 2 * time.Second

// lateness is for how long after the end of a wait the daemon may say that it is over.
const lateness = 2 * time.Second

// silence is how much of the time for an answer is left. A daemon that starts takes the connection, and may wait for
// its store before it reads what is asked. It is negative for a request that waits without end.
func (o *opening) silence() time.Duration {
	switch {
	case o.try:
		return max(o.began+client.AwayTime+lateness-bootclock.Now(), 0)
	case o.wait > 0:
		return max(o.began+o.wait+lateness-bootclock.Now(), 0)
	}
	return -1
}

// silentFailure is the error of a daemon that has said nothing in the time that there was.
func silentFailure(d *client.Daemon, o *opening) error {
	return &cli.Failure{
		Code: cli.ExitUnavailable, Err: fmt.Errorf(
			"the daemon on %s has not answered within %v; it may be waiting for its store", d.Path,
			readable.Duration(bootclock.Now()-o.began),
		),
		Try: "lockagent doctor    (says what is wrong)",
	}
}

// open begins a claim, and tells what becomes of it until it is over or left. The name may be empty if the call is
// about a claim.
func open(d *client.Daemon, name lockagent.Name, first opening, tell chan<- news) *claimed {
	ctx, leave := context.WithCancel(context.Background())
	c := &claimed{daemon: d, name: name, ctx: ctx, leave: leave, warns: first.warns}
	go c.follow(ctx, first, func(n news) {
		n.of = c
		select {
		case tell <- n:
		case <-ctx.Done():
		}
	})
	return c
}

// connect makes a call on a connection that carries nothing else, over HTTP/1.1: so whoever has the connection has the
// claim.
func (c *claimed) connect(
	ctx context.Context, open opening,
) (*connect.ServerStreamForClient[lockagentv1.ClaimEvent], net.Conn, error) {
	conn, err := c.daemon.Dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	transport := &http.Transport{
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		DisableKeepAlives: true,
	}
	s, err := open.call(ctx, lockagentv1connect.NewLockServiceClient(&http.Client{Transport: transport}, client.URL))
	return s, conn, err
}

// follow makes the call, and reads what becomes of the claim. When the stream breaks, it makes another one.
func (c *claimed) follow(ctx context.Context, first opening, tell func(news)) {
	s, conn, err := c.connect(ctx, first)
	c.conn = conn
	var deadline time.Duration // the newest
	quiet := absence{since: bootclock.Now()}
	for {
		for err == nil && s.Receive() {
			quiet = absence{}
			n, over := c.read(s.Msg())
			deadline = max(deadline, n.deadline)
			tell(n)
			if over {
				_ = s.Close()
				return
			}
		}
		if err == nil {
			err = s.Err()
			_ = s.Close()
			if err == nil || first.detaches && c.token != 0 {
				tell(news{ended: errDetached, lost: true})
				return
			}
		}
		if quiet.since == 0 {
			quiet.since = bootclock.Now()
		}
		if s, err = c.again(ctx, first, err, &quiet, deadline, tell); err != nil {
			lost := c.token != 0
			if lost && errors.Is(err, refusal.ErrNoClaim) {
				err = lostClaim
			}
			tell(news{ended: err, lost: lost})
			return
		}
	}
}

// errDetached is how a stream ends whose claim goes on without it.
var errDetached = &cli.Failure{Code: cli.ExitLost, Err: errors.New("another process has attached to the claim")}

// lostClaim is how a hold ended of which the daemon knows nothing any more.
var lostClaim = &cli.Failure{Code: cli.ExitLost, Err: errors.New("the daemon has started anew without the claim")}

// retryAfter is between two attempts to reach a daemon that starts anew.
const retryAfter = 50 * time.Millisecond

// away reports whether an error of the daemon client means that there is no daemon now, or that it is about to leave
// the claims to the next one.
func away(err error) bool {
	if _, never := errors.AsType[client.NoSocket](err); never {
		return false
	}
	return cli.CodeOf(err) == cli.ExitNoDaemon || errors.Is(err, lockagent.ErrClosed) || errors.Is(err, refusal.ErrDraining)
}

// noticeTime is for how long there may be no daemon before somebody who waits for one is told.
const noticeTime = time.Second

// absence is the time in which the daemon tells nothing of a claim.
type absence struct {
	since time.Duration // by the boot clock; 0 if it tells something
	told  bool          // whoever waits has been told of the absence
}

// again makes another stream. It attaches to a claim that holds its lock, until the deadline of that. It asks again for
// a claim that waits, which the daemon knows by its secret. It gives that up when the daemon has been silent for too
// long. Then it returns the error that broke the stream, or that of the last attempt, as it does if the daemon said
// that error.
func (c *claimed) again(
	ctx context.Context, first opening, broken error, quiet *absence, deadline time.Duration, tell func(news),
) (*connect.ServerStreamForClient[lockagentv1.ClaimEvent], error) {
	broken = c.daemon.Failed(broken)
	open, pause := attaching(c.id, c.secret, c.warns), time.Duration(0)
	if c.token == 0 {
		open, deadline = first, quiet.since+first.patience(errors.Is(broken, refusal.ErrDraining))
		pause = retryAfter // a daemon that is about to end may answer at once
	}
	for away(broken) && bootclock.Now() < deadline && ctx.Err() == nil {
		if c.token == 0 && !quiet.told && bootclock.Now() >= quiet.since+noticeTime {
			tell(news{away: broken})
			quiet.told = true
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, broken
		}
		s, conn, err := c.connect(ctx, open)
		if err == nil {
			if c.token == 0 {
				c.conn = conn
			}
			return s, nil
		}
		if c.token == 0 {
			broken = c.daemon.Failed(err)
			deadline = quiet.since + first.patience(errors.Is(broken, refusal.ErrDraining))
		}
		pause = retryAfter
	}
	return nil, broken
}

// persist makes a call again while there is no daemon, for a while: claims outlast their daemons.
func persist(ctx context.Context, patience time.Duration, call func() error) error {
	for until := bootclock.Now() + patience; ; {
		err := call()
		if err == nil || !away(err) || bootclock.Now() >= until {
			return err
		}
		select {
		case <-time.After(retryAfter):
		case <-ctx.Done():
			return err
		}
	}
}

// read says what an event means, and whether it is the last.
func (c *claimed) read(e *lockagentv1.ClaimEvent) (n news, over bool) {
	switch {
	case e.GetQueued() != nil:
		return news{queued: e.GetQueued()}, false
	case e.GetGranted() != nil:
		g := e.GetGranted()
		if c.token == 0 { // after that others read them
			c.id, c.secret, c.waited = g.GetClaim(), g.GetSecret(), g.GetWaited().AsDuration()
			c.token = lockagent.Token(g.GetToken())
		}
		n = news{granted: true, name: lockagent.Name(g.GetLock())}
		n.deadline, n.foreign = instant(g.GetDeadline())
		return n, false
	case e.GetRenewed() != nil:
		n.deadline, _ = instant(e.GetRenewed().GetDeadline())
		return n, false
	case e.GetUncertain() != nil:
		return news{doubt: e.GetUncertain().GetReason()}, false
	case e.GetWarning() != nil:
		return news{warning: e.GetWarning()}, false
	case e.GetEnded() != nil:
		return news{ended: ended(e.GetEnded()), lost: c.token != 0}, true
	}
	return n, false
}

// instant is the instant of the boot clock that a deadline names. That of another clock is one that has passed.
func instant(d *lockagentv1.Deadline) (time.Duration, error) {
	if err := bootclock.Foreign(d.GetBootId()); err != nil {
		return 0, err
	}
	return time.Duration(d.GetBoottime()), nil
}

// ended is why a claim is over.
func ended(e *lockagentv1.Ended) error {
	switch {
	case e.GetDenied() != nil:
		return wire.ToError(e.GetDenied())
	case e.GetLost() != nil:
		return wire.ToLost(e.GetLost())
	}
	return lockagent.ErrReleased // by somebody else: whoever releases it here has left before
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
	req := &lockagentv1.ReleaseRequest{Claim: c.id, Secret: c.secret, Lost: lost}
	if keep > 0 && !c.late {
		req.Keep = durationpb.New(max(keep, time.Millisecond))
	}
	return release(ctx, c.daemon, req)
}

// release ends a claim. See claimed.release.
func release(ctx context.Context, d *client.Daemon, req *lockagentv1.ReleaseRequest) error {
	ended, calls := false, 0
	err := persist(ctx, client.AwayTime, func() error {
		calls++
		r, err := d.Locks.Release(ctx, req)
		if err != nil {
			return d.Failed(err)
		}
		ended = r.GetEnded()
		return nil
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
func (c *claimed) handle() string { return c.id + "." + c.secret }

// parseHandle takes a handle apart.
func parseHandle(text, try string) (id, secret string, err error) {
	id, secret, ok := strings.Cut(text, ".")
	if !ok || id == "" || secret == "" {
		return "", "", cli.Usage(try, "%q is no claim; lockagent acquire prints one", text)
	}
	return id, secret, nil
}

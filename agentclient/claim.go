package agentclient

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/internal/daemon/follow"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	"github.com/lockagent/lockagent/internal/tied"
	"github.com/lockagent/lockagent/internal/warning"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// stage is how far a claim is.
type stage uint8

const (
	waiting stage = iota
	held
	releasing // over for its owner, and the daemon has not said yet that it is released
	gone
)

// claim is one request, and then its hold. The mutex of the agent guards what changes, but for the atomic values.
type claim struct {
	agent *agent
	ticket
	name   lockagent.Name
	req    actor.Request
	caller context.Context
	begin  time.Time
	waited bool // the caller waits in Lock

	queue *queue        // nil if the request has a claim of its own
	place *list.Element // in the queue; nil for the first

	stage stage
	why   error // why the grant was taken back

	number   uint64 // of the grant, in the order of grants
	token    lockagent.Token
	count    int
	replicas int
	permits  []lockagent.PermitID

	until    atomic.Int64  // the deadline
	lease    time.Duration // the longest that was left until the deadline
	warnings struct{ wanted, uncertain warning.Warning }

	cause atomic.Pointer[error] // why the hold is over

	done       chan struct{} // closed when the hold is over; nil until somebody wants it
	contexts   tied.Contexts // that end with the hold
	handle     *handle       // nil if there is none, and after the first renewal
	extensions map[uint64]extension

	unwatch  func() bool // of the caller's context; nil if that does not end
	timer    *time.Timer // for the wait, then for the deadline, then for the answer to the release
	claimed  *time.Timer // for a grant that nobody receives
	released chan error  // gets the outcome of the release
	answered bool        // it has
}

// ticket is the claim as the daemon has it. It may go on from a request to the next one of its queue.
type ticket struct {
	follow.Claim
	ref     uint64
	asked   bool      // the daemon was asked over the present link
	known   bool      // the daemon was asked over any link, so it may have the claim
	since   time.Time // when the daemon was asked first
	bounded bool      // the daemon ends the wait
	tries   int       // in which the daemon could not take it

	warns     bool          // somebody wants warnings of the daemon
	more      int           // how many holds may still begin
	began     time.Duration // when the first one did
	confirmed bool          // the daemon has told of the grant over the present link
	over      bool          // the daemon has told that the claim is over
}

// Timing that nobody has needed to change.
const (
	waitGrace   = 250 * time.Millisecond // for which the daemon may be late to say that a wait has passed
	releaseTime = 5 * time.Second        // for which a release waits for its answer
	phantomTime = time.Minute            // for which the agent has a daemon that was away withdraw a request
)

// watch ends the wait when the caller's context ends, or the wait passes and the daemon does not say so.
func (c *claim) watch() {
	if c.caller.Done() != nil {
		c.unwatch = context.AfterFunc(c.caller, func() {
			c.agent.leave(c, func() error { return c.waitError(timedOut(c.caller), context.Cause(c.caller)) })
		})
	}
	if c.req.Wait > 0 {
		c.timer = time.AfterFunc(c.req.Wait, c.waitPassed)
	}
}

// waitPassed ends the wait. If the daemon bounds it as well, it has a while to say so, because it knows more.
func (c *claim) waitPassed() {
	a := c.agent
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.stage != waiting {
		return
	}
	if left := c.req.Wait + waitGrace - time.Since(c.begin); c.bounded && left > 0 {
		c.timer.Reset(left)
		return
	}
	c.deny(c.waitError(true, lockagent.ErrTimeout))
	a.giveBack(c)
}

func (c *claim) waitError(timedOut bool, cause error) error {
	a := c.agent
	e := &lockagent.WaitError{
		Name: c.name, Kind: c.req.Kind.OrPlain(), Waited: time.Since(c.begin), Holder: c.waitsFor(), TimedOut: timedOut,
		Err: cause,
	}
	if c.req.Kind == lockagent.Semaphore || c.req.Kind == lockagent.Permits {
		e.Permits = max(1, c.req.Permits)
	}
	switch {
	case !a.linked:
		e.Silent, e.Store = max(1, min(time.Since(a.silent), e.Waited)), a.unavailable(a.trouble)
	default:
		e.Silent = c.asks().silence(c.begin)
	}
	return e
}

// silence is for how long the daemon has not said a word of a claim, for a request that was made at begin. A moment
// counts only if the request has waited for nothing else.
func (t *ticket) silence(begin time.Time) time.Duration {
	const slow = 200 * time.Millisecond // as in package actor
	silent := time.Since(t.since)
	if t.ID != "" || silent < slow && t.since.After(begin) {
		return 0
	}
	return max(1, silent)
}

// leave ends a request that waits, or takes back a grant that nobody has received.
func (a *agent) leave(c *claim, why func() error) {
	a.mu.Lock()
	switch {
	case c.stage == waiting:
		c.deny(why())
		a.giveBack(c)
	case c.stage == held && c.req.Slot.TakeBack():
		c.why = why()
		c.end(lockagent.ErrReleased) // nobody has the grant, so there is nobody to tell
		a.giveBack(c)
	}
	a.mu.Unlock()
}

// deny answers the request. The mutex must be held, as for all that follows.
func (c *claim) deny(err error) {
	c.stage = gone
	c.unwatchAll()
	c.req.Slot.Put(lockagent.Denied(c.name, c.req.Owner, err), nil)
	c.req.Watch.Ended(err)
}

// refuse is deny for a claim that the daemon does not have.
func (c *claim) refuse(err error) {
	c.deny(err)
	c.agent.remove(c)
}

func (c *claim) unwatchAll() {
	if c.unwatch != nil {
		c.unwatch()
		c.unwatch = nil
	}
	for _, t := range []*time.Timer{c.timer, c.claimed} {
		if t != nil {
			t.Stop()
		}
	}
}

func (c *claim) isReceived() bool { return c.req.Slot.Received() && c.req.Watch.Received() }

// granted gives the lock to the owner, as the daemon says.
func (c *claim) granted(g *lockagentv1.Granted, until time.Duration) {
	c.began, c.more = c.agent.now(), max(0, int(g.GetHolds())-1)
	c.confirmed = true
	for _, id := range g.GetPermitIds() {
		c.permits = append(c.permits, lockagent.PermitID(id))
	}
	c.hold(c.First, int(g.GetCount()), int(g.GetReplicas()), until)
}

// hold begins the hold.
func (c *claim) hold(token lockagent.Token, count, replicas int, until time.Duration) {
	a := c.agent
	a.grants++
	c.stage, c.number = held, a.grants
	c.token, c.count, c.replicas = token, count, replicas
	c.until.Store(int64(until))
	c.lease = until - a.now()
	if c.timer != nil {
		c.timer.Stop()
	}
	c.timer = time.AfterFunc(until-a.now(), c.expire)
	if !a.glances {
		a.glances = true
		time.AfterFunc(follow.Glance, a.glance)
	}
	c.req.Watch.Granted(1)
	c.req.Slot.Put(lockagent.NewGrant(c.name, c.req.Owner, c.token, c.count, c.handed()), nil)
	if c.waited {
		return
	}
	claim := a.cfg.Claim
	if c.req.Claim != 0 {
		claim = min(claim, c.req.Claim)
	}
	c.claimed = time.AfterFunc(claim, func() {
		a.leave(c, func() error {
			a.unclaimed.Do(func() {
				a.cfg.Logger.Warn("lockagent: a grant that nobody received was given back; further ones are not logged",
					"lock", string(c.name), "owner", string(c.req.Owner), "after", claim)
			})
			return c.lost(lockagent.LostUnclaimed)
		})
	})
}

// renew sets a new deadline.
func (c *claim) renew(until time.Duration) {
	if c.stage == gone || c.stage == waiting {
		return
	}
	c.until.Store(int64(until))
	if c.stage == releasing { // the next of the queue may get the claim
		return
	}
	c.lease = max(c.lease, until-c.agent.now())
	c.timer.Reset(until - c.agent.now())
	c.watchHandle()
	c.warn()
}

// expire ends the hold, if its deadline has passed. Nobody needs to have heard of the daemon for that.
func (c *claim) expire() {
	a := c.agent
	a.mu.Lock()
	if c.stage == held {
		if left := time.Duration(c.until.Load()) - a.now(); left > 0 {
			c.timer.Reset(left)
		} else {
			told := c.end(c.lost(c.lateness()))
			a.mu.Unlock()
			told()
			a.mu.Lock()
			a.giveBack(c)
		}
	}
	a.mu.Unlock()
}

// glance has the holds end whose timers are late, and looks again while there are holds. Timers stand still while the
// machine is suspended, and deadlines do not.
func (a *agent) glance() {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := int64(a.now())
	a.glances = false
	for _, c := range a.claims {
		if c.stage != held {
			continue
		}
		a.glances = true
		if c.until.Load() <= now {
			c.timer.Reset(0)
		}
		c.warn()
	}
	if a.glances {
		time.AfterFunc(follow.Glance, a.glance)
	}
}

// lateness is why a hold ends at its deadline.
func (c *claim) lateness() lockagent.LossReason {
	if c.req.Lease != 0 {
		return lockagent.LostExpired
	}
	return lockagent.LostDeadline
}

func (c *claim) lost(why lockagent.LossReason) error {
	return &lockagent.LostError{Name: c.name, Owner: c.req.Owner, Token: c.token, Reason: why}
}

// end ends the hold here. The caller calls told without the mutex, before anybody else can have the lock.
func (c *claim) end(cause error) (told func()) {
	c.stage = releasing
	c.unwatchAll()
	if c.req.Slot.TakeBack() && c.why == nil {
		c.why = cause
	}
	c.cause.Store(&cause)
	contexts, done := c.contexts, c.done
	c.contexts = tied.Contexts{}
	for _, x := range c.extensions {
		x.done <- c.overError()
		close(x.done)
	}
	c.extensions = nil
	c.req.Watch.Ended(cmp.Or(c.why, cause))
	return func() {
		if done != nil {
			close(done)
		}
		defer func() { // a parent that is not of package context may panic, and the claim has to go back all the same
			if p := recover(); p != nil {
				c.agent.cfg.Logger.Error("lockagent: recovered from a panic", "of", "the parent of a grant's context",
					"panic", p, "stack", string(debug.Stack()))
			}
		}()
		contexts.End(cause)
	}
}

// overError is the error of a release when the hold is over.
func (c *claim) overError() error {
	cause := *c.cause.Load()
	if errors.Is(cause, lockagent.ErrReleased) {
		return lockagent.ErrNotHeld
	}
	return cause
}

// giveBack has the daemon end a claim that is over here, unless the next request of its queue gets the claim. The
// channel delivers the outcome.
func (a *agent) giveBack(c *claim) <-chan error {
	c.stage = releasing
	c.released = make(chan error, 1)
	if a.handOn(c) {
		return c.released
	}
	if !c.known {
		a.settle(c, nil)
		return c.released
	}
	a.push(c.give())
	a.follow(c) // in the same message
	c.timer = time.AfterFunc(a.patience(), func() { a.giveUp(c) })
	return c.released
}

// give is the message that ends the claim. The daemon may still renew a hold that was lost here, so the message says
// that it was lost.
func (c *claim) give() *lockagentv1.Command {
	cause := c.why
	if ended := c.cause.Load(); cause == nil && ended != nil {
		cause = *ended
	}
	give := &lockagentv1.Give{Lost: wire.FromGivenUp(cause)}
	return &lockagentv1.Command{Ref: c.ref, Command: &lockagentv1.Command_Release{Release: give}}
}

// patience is for how long a release waits for its answer.
func (a *agent) patience() time.Duration {
	if a.closed && !a.linked {
		return 0 // nobody will answer
	}
	return releaseTime
}

// giveUp tells the owner that the daemon has not confirmed the release. It goes on until the deadline, when the lock is
// free anyway. A claim that was not granted has none: the daemon, or the next one, may still have it, and grant it to
// nobody.
func (a *agent) giveUp(c *claim) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.stage != releasing {
		return
	}
	given := c.answered // up before
	c.answer(lockagent.ErrUnconfirmed)
	left := time.Duration(c.until.Load()) - a.now()
	if c.First == 0 && !given {
		left = phantomTime
	}
	if left > 0 && !a.closed {
		c.timer.Reset(left)
	} else {
		a.remove(c)
	}
}

// settle ends a claim whose release has an answer.
func (a *agent) settle(c *claim, err error) {
	c.answer(err)
	a.remove(c)
}

func (c *claim) answer(err error) {
	if !c.answered && c.released != nil {
		c.answered = true
		c.released <- err
		close(c.released)
	}
}

// remove forgets a claim.
func (a *agent) remove(c *claim) {
	c.stage = gone
	c.unwatchAll()
	a.step(c)
	delete(a.claims, c.ref)
	delete(a.names[c.name], c)
	if len(a.names[c.name]) == 0 {
		delete(a.names, c.name)
	}
	if a.idle != nil && a.isIdle() {
		close(a.idle)
		a.idle = nil
	}
}

// program is the name of this program. The kernel has only the beginning of it.
var program = sync.OnceValue(func() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	return lockagent.Process{Program: filepath.Base(path)}.Who().Process().Program
})

// request is the message that asks for the claim.
func (c *claim) request() *lockagentv1.AcquireRequest {
	r := &lockagentv1.AcquireRequest{
		Name: string(c.name), Kind: wire.FromKind(c.req.Kind), Mode: wire.FromMode(c.req.Mode),
		Permits: int32(c.req.Permits),
		Try:     c.req.Try, Lease: wire.FromDuration(c.req.Lease), NoReentry: c.req.NoReentry, NoRest: c.req.NoRest,
		Outlive: c.req.Outlive, Secret: c.Secret, Command: c.agent.cfg.Command, Program: program(),
		Warn: c.warns,
	}
	if trace := c.agent.cfg.TraceParent; trace != nil {
		r.Traceparent = trace(c.caller)
	}
	if c.req.Session {
		r.Session = c.agent.session(c.req.Owner)
	}
	switch {
	case c.queue != nil && c.queue.busy(): // others may get the claim, so this wait does not bound it
		r.Holds = refusal.MaxHolds
	case c.req.Wait > 0:
		r.Wait = durationpb.New(max(time.Millisecond, c.req.Wait-time.Since(c.begin)))
	}
	return r
}

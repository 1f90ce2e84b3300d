package agentclient

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/internal/backend"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	"github.com/lockagent/lockagent/internal/slot"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// agent has the claims of this process. It does for channelapi what an [actor.Agent] does, and the daemon does most of
// it.
type agent struct {
	cfg Config
	id  lockagent.AgentID
	key string               // with it begin the secrets of the claims
	now func() time.Duration // the clock of the deadlines
	rpc services

	over  context.Context // ends with the agent
	stop  context.CancelFunc
	ended chan struct{} // closed when the link has ended for good
	kick  chan struct{} // has a value when there are commands

	mu          sync.Mutex // guards what follows, and what changes of the claims
	claims      map[uint64]*claim
	names       map[lockagent.Name]map[*claim]struct{}
	queues      map[lockName]*queue
	ref, grants uint64                 // the last numbers
	commands    []*lockagentv1.Command // that wait to be sent
	linked      bool
	silent      time.Time // since when there is no link; zero while there is
	trouble     error     // why there is none
	closed      bool      // no new requests
	glances     bool      // somebody looks at the deadlines
	idle        chan struct{}
	unconfirmed int // releases without an answer, by Close

	unclaimed, dropping sync.Once // each is logged once
}

var _ backend.Agent = (*agent)(nil)

func newAgent(cfg Config, now func() time.Duration) *agent {
	a := &agent{
		cfg: cfg, id: lockagent.NewAgentID(), key: rand.Text(), now: now, rpc: servicesAt(cfg.Socket),
		ended: make(chan struct{}), kick: make(chan struct{}, 1),
		claims: make(map[uint64]*claim), names: make(map[lockagent.Name]map[*claim]struct{}),
		queues: make(map[lockName]*queue), silent: time.Now(),
	}
	a.over, a.stop = context.WithCancel(context.Background())
	return a
}

// ID implements [backend.Agent].
func (a *agent) ID() lockagent.AgentID { return a.id }

// Acquire implements [backend.Agent].
func (a *agent) Acquire(ctx context.Context, name lockagent.Name, req actor.Request) <-chan lockagent.Grant {
	return a.ask(ctx, name, req, false).req.Slot.C()
}

// Lock implements [backend.Agent].
func (a *agent) Lock(ctx context.Context, name lockagent.Name, req actor.Request) lockagent.Grant {
	c := a.ask(ctx, name, req, true)
	if g, ok := <-c.req.Slot.C(); ok {
		return g
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	why := c.why
	if lost, ok := errors.AsType[*lockagent.LostError](why); ok && lost.Reason == lockagent.LostClosed {
		why = lockagent.ErrClosed
	} else if ok && lost.Reason == lockagent.LostIdentity {
		why = lockagent.ErrIdentityInUse
	}
	return lockagent.Denied(name, req.Owner, why)
}

// ask makes a claim.
func (a *agent) ask(ctx context.Context, name lockagent.Name, req actor.Request, waited bool) *claim {
	if req.Slot == nil {
		req.Slot = slot.New[lockagent.Grant]()
	}
	if req.Watch == nil {
		req.Watch = actor.NopWatcher{}
	}
	c := &claim{agent: a, name: name, req: req, caller: ctx, begin: time.Now(), waited: waited}
	err := check(ctx, name, &req)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil && a.closed {
		err = lockagent.ErrClosed
	}
	if err != nil {
		c.deny(err)
		return c
	}
	a.ref++
	c.ref, c.Secret = a.ref, a.key+"."+strconv.FormatUint(a.ref, 10)
	a.claims[c.ref] = c
	if a.names[name] == nil {
		a.names[name] = make(map[*claim]struct{})
	}
	a.names[name][c] = struct{}{}
	c.watch()
	if !a.join(c) {
		c.since = c.begin
		a.submit(c)
	}
	if !a.linked && req.Try {
		c.refuse(a.unavailable(a.trouble))
	}
	return c
}

// check returns what is wrong with a request that the daemon need not be asked about.
func check(ctx context.Context, name lockagent.Name, req *actor.Request) error {
	if _, err := lockagent.ParseName(string(name)); err != nil {
		return err
	}
	if err := lockagent.CheckPermits(req.Kind, req.Permits); err != nil {
		return err
	}
	switch {
	case req.Session && (req.Kind == lockagent.Semaphore || req.Kind == lockagent.Permits):
		return &lockagent.OptionError{
			Option: "session", Reason: "a semaphore has no re-entries; each request is an owner of its own",
		}
	case ctx.Err() != nil:
		return &lockagent.WaitError{Name: name, Kind: req.Kind.OrPlain(), TimedOut: timedOut(ctx), Err: context.Cause(ctx)}
	case req.Wait < 0:
		return &lockagent.WaitError{Name: name, Kind: req.Kind.OrPlain(), TimedOut: true, Err: lockagent.ErrTimeout}
	}
	return nil
}

func timedOut(ctx context.Context) bool { return errors.Is(ctx.Err(), context.DeadlineExceeded) }

// session is the name of an owner's session for the daemon. The sessions of two clients never meet.
func (a *agent) session(owner lockagent.Owner) string {
	if s := string(a.id) + "/" + string(owner); len(s) <= refusal.MaxSession {
		return s
	}
	sum := sha256.Sum256([]byte(owner))
	return string(a.id) + "/" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// holderOf is who has a lock, as this agent says it: the owner, if the daemon names one of its claims or sessions.
func (a *agent) holderOf(name lockagent.Name, holder string) string {
	for c := range a.names[name] {
		if c.ID == holder && holder != "" || c.req.Session && strings.HasSuffix(holder, "/"+a.session(c.req.Owner)) {
			return string(c.req.Owner)
		}
	}
	return holder
}

// ReleaseMode implements [backend.Agent].
func (a *agent) ReleaseMode(
	_ context.Context, name lockagent.Name, owner lockagent.Owner, mode lockagent.Mode,
) <-chan error {
	if _, err := lockagent.ParseName(string(name)); err != nil {
		return delivered(err)
	}
	a.mu.Lock()
	var youngest *claim
	other, mine := false, false
	for c := range a.names[name] {
		switch {
		case c.stage != held:
		case c.req.Owner != owner:
			other = true
		case mode != "" && orExclusive(c.req.Mode) != mode || !c.isReceived():
			mine = true
		case youngest == nil || c.number > youngest.number:
			youngest = c
		}
	}
	closed := a.closed && len(a.names[name]) == 0
	a.mu.Unlock()
	switch {
	case youngest != nil:
		return youngest.release()
	case closed:
		return delivered(lockagent.ErrClosed)
	case other && !mine:
		return delivered(lockagent.ErrNotOwner)
	}
	return delivered(lockagent.ErrNotHeld)
}

func orExclusive(m lockagent.Mode) lockagent.Mode {
	if m == "" {
		return lockagent.Exclusive
	}
	return m
}

// Leave implements [backend.Agent].
func (a *agent) Leave(_ context.Context, name lockagent.Name, owner lockagent.Owner) <-chan error {
	a.mu.Lock()
	var leaving []*claim
	for c := range a.names[name] {
		if c.req.Owner == owner && c.stage < releasing {
			leaving = append(leaving, c)
		}
	}
	a.mu.Unlock()
	return joined(a.end(leaving, lockagent.ErrSessionClosed, lockagent.LostSessionClosed))
}

// end ends claims: those that wait with an error, and those that hold with a loss.
func (a *agent) end(claims []*claim, denied error, lost lockagent.LossReason) (outcomes []<-chan error) {
	for _, c := range claims {
		a.mu.Lock()
		switch c.stage {
		case waiting:
			c.deny(denied)
			a.giveBack(c)
			a.mu.Unlock()
		case held:
			told := c.end(c.lost(lost))
			a.mu.Unlock()
			told()
			a.mu.Lock()
			if lost == lockagent.LostClosed && c.req.Outlive {
				a.remove(c)
			} else {
				outcomes = append(outcomes, a.giveBack(c))
			}
			a.mu.Unlock()
		default:
			a.mu.Unlock()
		}
	}
	return outcomes
}

// joined delivers the errors of all outcomes.
func joined(outcomes []<-chan error) <-chan error {
	done := make(chan error, 1)
	go func() {
		defer close(done)
		var errs []error
		for _, o := range outcomes {
			errs = append(errs, <-o)
		}
		done <- errors.Join(errs...)
	}()
	return done
}

func delivered[T any](v T) <-chan T {
	c := make(chan T, 1)
	c <- v
	close(c)
	return c
}

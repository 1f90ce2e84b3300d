package actor

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
	"github.com/lockagent/lockagent/internal/saved"
	"github.com/lockagent/lockagent/internal/slot"
)

// Agent is one instance of the lock manager, with the actors of all its locks. Make one with
// [New]. It is safe for concurrent use.
type Agent struct {
	cfg            Config
	restingConfig  *lockstate.Config // of plain and fenced locks
	spinningConfig *lockstate.Config // of spin locks
	baseConfig     *lockstate.Config // of all other kinds
	clock          *clock
	registry       registry
	returns        returns
	broadcast      broadcast

	machines map[lockagent.LockKind]newMachine // does not change after the first lock was made

	fresh  atomic.Uint64 // the last number of a step, of all locks
	first  uint64        // the numbers of this agent are above it; does not change
	former former        // does not change

	selective lockagent.SelectiveRecorder // the recorder, if it is one; or nil

	journaling *journaling // nil if there is no journal

	spareCalls         sync.Pool // of *call, for Release
	wakers             sync.Pool // of chan struct{}, for Lock and Release
	unclaimed, dropped sync.Once // each is logged once

	storeTime storeTime

	identity identity
	layers   layers // of the store; does not change

	deafen  func() // cancels Listen and OnReset; may be called again
	ending  ending
	resumed []ResumedRequest // does not change
	who     lockagent.Who    // of its process; does not change
}

// Request says how an owner wants to hold a lock.
type Request struct {
	// Owner is the owner who asks.
	Owner lockagent.Owner
	// Kind is the kind of the lock. A name that is in use as another kind is a
	// [*lockagent.KindError].
	Kind lockagent.LockKind
	// Mode says beside which other holds the hold may be.
	Mode lockagent.Mode
	// Permits is the number of permits of a semaphore that the owner wants. 0 is 1.
	Permits int
	// Lease is a fixed lease, or 0 for a kept lease.
	Lease time.Duration
	// Wait bounds the wait for the lock. It counts from the call of Acquire or Lock. If it is
	// 0, only the context bounds the wait. If it is negative, the request times out at once.
	Wait time.Duration
	// Session says that Owner may hold the lock several times at once. Otherwise Owner must
	// be unique to this request.
	Session bool
	// NoReentry refuses the request with [lockagent.ErrReentry] if Owner holds the lock or waits for
	// it already. It needs Session.
	NoReentry bool
	// Try asks not to wait: the lock is granted if it is free now.
	Try bool
	// NoRest asks that the lock goes back when the hold has ended, and does not rest.
	NoRest bool
	// Outlive says what Close does with the hold: the lock stays held in the store until its
	// lease has run out. So the lock is granted only when the store has confirmed that lease. It needs a Lease.
	Outlive bool
	awaits  bool // the request is one of Await
	// Holds is how many holds the owner wants to make of the grant, one after the other, without asking the agent
	// again. They have the tokens from that of the grant on. The agent may allow fewer: [Watcher] tells. 0 is 1. Only
	// an exclusive request for a plain or a fenced lock, without a Session, may have more.
	Holds uint16

	// Slot is where [Agent.Acquire] puts the grant, or its denial. Nil stands for a new one. It is for packages of this
	// module.
	Slot *slot.Slot[lockagent.Grant]
	// Claim is how long the grant may lie in its channel. 0 stands for Config.Claim, which bounds it. Whether somebody
	// receives a grant of such a request does not matter to other requests.
	Claim time.Duration
	// Watch is told every step of the request. It may be nil.
	Watch Watcher
	// Who is the process behind the request, for the event log. The zero Who stands for the process of the agent.
	Who lockagent.Who
	// Tag is for whoever resumes the request: see [ResumedRequest]. The agent only keeps it.
	Tag string
}

// New starts an agent. The error joins a [*lockagent.OptionError] for each wrong field of cfg. It is
// [lockagent.ErrIdentityInUse] if the store says at once that another agent has the identity. Otherwise the agent
// ends when the store says so: see [Agent.IdentityTaken].
func New(cfg Config) (*Agent, error) { return open(cfg, nil) }

// open starts an agent. It goes on from another one, unless that is nil.
func open(cfg Config, from *saved.Agent) (*Agent, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	layers := layersOf(cfg.Store)
	cfg.NoRest = cfg.NoRest || !layers.rests
	if from != nil && layers.messages == nil {
		return nil, errNoMessages
	}
	a := &Agent{
		cfg: cfg, layers: layers, baseConfig: cfg.base(), restingConfig: cfg.resting(), spinningConfig: cfg.spinning(),
		clock: newClock(), ending: ending{done: make(chan struct{})},
	}
	of := cfg.Process
	of.Version = "" // each event would have it
	a.who = of.Who()
	a.identity.init(cfg.Store, from != nil)
	a.cfg.Store = &a.identity
	a.machines = machinesOf(a)
	a.selective, _ = cfg.Recorder.(lockagent.SelectiveRecorder)
	if from != nil {
		a.former = formerOf(from)
	}
	a.first = firstNumber(a.former.last)
	a.fresh.Store(a.first)
	for _, locks := range []*lockstate.Config{a.baseConfig, a.restingConfig, a.spinningConfig} {
		locks.Used = a.hasUsed
	}
	if cfg.Journal != nil {
		a.journaling = &journaling{agent: a, journal: cfg.Journal}
	}
	a.registry.init(func(e *entry) *lock { return newLock(a, e) }, a.identity.closed)
	a.broadcast.registry, a.broadcast.returns = &a.registry, &a.returns
	a.returns.grace = a.layers.grace
	begun := &lockagent.Event{Kind: lockagent.EventAgentStarted, Process: cfg.Process}
	if from != nil {
		begun.Count, begun.Sum = from.Holds()
	}
	a.record(context.Background(), begun)
	a.returns.begin(lockagent.PresentIncarnation) // a grace period may wait for a new agent, too, which others have seen
	back, _ := a.returns.take()
	messages := a.load(from) // before Listen: a message about a lock that is not loaded would look like a ghost's
	offListen := func() {}
	if a.layers.messages != nil {
		offListen = a.layers.messages.Listen(cfg.ID, a.hear)
	} else {
		a.identity.settle(verdictMine) // nobody tells
	}
	offReset, offGrace := cfg.Store.OnReset(a.storeReset), func() {}
	if a.layers.grace != nil {
		offGrace = a.layers.grace.OnGrace(a.inGrace)
	}
	a.deafen = sync.OnceFunc(func() { offGrace(); offReset(); offListen() })
	for _, m := range messages {
		send(m.entry, m)
	}
	if a.identity.begin() {
		_ = a.Close() // it gives nothing back
		return nil, lockagent.ErrIdentityInUse
	}
	a.returns.done(back)
	if cfg.Recorder != nil && a.layers.history != nil {
		a.askTime()
	}
	return a, nil
}

// firstNumber returns a number from which an agent counts, above those that were used before. It is random. So an agent
// that starts again with its old identity uses no number twice. And two agents with one identity use different numbers:
// the store never takes the tenure of the one for that of the other. That is so if both have started. The copy of a
// machine that ran goes on with the numbers of the original: see [identity]. The time would not do: somebody may have
// set the clock back, and a copy of a machine has the same time.
//
// The first start leaves one half of all numbers. Each further start takes a small part of those that are left, which
// lasts for many thousand starts.
func firstNumber(before uint64) uint64 {
	part := uint64(lockagent.MaxTenure) / 2
	if before > 0 {
		part = (lockagent.MaxTenure - before) / 1024
	}
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return before + binary.LittleEndian.Uint64(b[:])%(part+1)
}

// former is what this agent knows of the numbers of the agent that it goes on with.
type former struct {
	first, last uint64          // that agent used numbers above first, and none above last
	tenures     map[uint64]bool // those that are as old as first, or older: it went on with them itself
}

func formerOf(from *saved.Agent) former {
	f := former{first: from.First, last: from.Last, tenures: make(map[uint64]bool)}
	for i := range from.Locks {
		for _, t := range from.Locks[i].Tenures {
			if t.Number <= f.first {
				f.tenures[t.Number] = true
			}
		}
	}
	return f
}

// hasUsed reports whether this agent has used a number, or the agent that it goes on with. A tenure with another number
// may be of another agent with the same identity. So this agent leaves it alone. That includes the numbers of still
// earlier agents: the state of one of them may have been copied, and the numbers of the copy lie between theirs.
func (a *Agent) hasUsed(number uint64) bool {
	f := &a.former
	return number > a.first && number <= a.fresh.Load() || number > f.first && number <= f.last || f.tenures[number]
}

// ID is the identity of the agent.
func (a *Agent) ID() lockagent.AgentID { return a.cfg.ID }

// Acquire asks for a lock. The channel has capacity 1 and delivers the one grant of the request, unless that is taken
// back: see below. Then the agent closes the channel, unless it is that of a Request.Slot that does not close. The
// channel needs no reader.
//
// The end of ctx ends the wait, with the cause of ctx. It does not end the hold: after
// somebody has received the grant, ctx does not matter.
//
// A grant that nobody has received is taken back when ctx ends, or when it has lain in its
// channel for Config.Claim. The channel then delivers nothing.
func (a *Agent) Acquire(ctx context.Context, name lockagent.Name, req Request) <-chan lockagent.Grant {
	if req.Slot == nil {
		req.Slot = slot.New[lockagent.Grant]()
	}
	r := &request{agent: a, Request: req, caller: ctx}
	if req.Wait > 0 {
		r.waitUntil = a.clock.now() + lockstate.Instant(req.Wait)
	}
	a.ask(ctx, name, r)
	return req.Slot.C()
}

// ask sends a request to its lock, or answers it at once.
func (a *Agent) ask(ctx context.Context, name lockagent.Name, r *request) {
	err := check(ctx, name, &r.Request)
	if err == nil {
		// An actor may not know yet that the agent is closed.
		if a.registry.closed.Load() {
			err = a.identity.closed()
		} else {
			r.entry, err = a.named(name, r.Kind)
		}
	}
	if err != nil {
		r.deny(name, err)
		return
	}
	if r.waited && r.Wait == 0 {
		sendInPerson(ctx, r.entry, r)
	} else { // the caller of Acquire goes on, and one with a bound has to leave when that has passed
		send(r.entry, r)
	}
}

func check(ctx context.Context, name lockagent.Name, req *Request) error {
	if _, err := lockagent.ParseOwner(string(req.Owner)); err != nil {
		return err
	}
	if req.Lease != 0 {
		if err := lockagent.CheckLease(req.Lease); err != nil {
			return err
		}
	}
	if err := lockagent.CheckPermits(req.Kind, req.Permits); err != nil {
		return err
	}
	if err := lockagent.CheckMode(req.Mode, req.Kind); err != nil {
		return err
	}
	switch {
	case req.Session && (req.Kind == lockagent.Semaphore || req.Kind == lockagent.Permits):
		reason := "a semaphore has no re-entries; each request is an owner of its own"
		return &lockagent.OptionError{Option: "session", Reason: reason}
	case (req.Kind == lockagent.Latch) != req.awaits:
		return &lockagent.OptionError{Option: "kind", Reason: "a latch is not acquired; await it"}
	case req.Holds > 1 && (req.Session || req.Mode == lockagent.Shared ||
		req.Kind.OrPlain() != lockagent.PlainLock && req.Kind != lockagent.FencedLock):
		return &lockagent.OptionError{
			Option: "holds",
			Reason: "only an exclusive grant of a plain or fenced lock, without a session, serves several holds; leave it out",
		}
	case req.Outlive && req.Lease == 0:
		reason := "a lease that is kept ends with the agent; give the request a fixed lease"
		return &lockagent.OptionError{Option: "outlive", Reason: reason}
	case ctx.Err() != nil:
		return ended(ctx, name, req.Kind)
	case req.Wait < 0:
		return &lockagent.WaitError{Name: name, Kind: req.Kind.OrPlain(), TimedOut: true, Err: lockagent.ErrTimeout}
	}
	return nil
}

// Release gives up the youngest grant of a lock that owner has received. The channel is like
// that of [lockagent.Grant.ReleaseAsync]. The error is [lockagent.ErrNotOwner] if only other
// owners of this agent hold the lock. Release does not give up a grant that owner has not
// received: if owner has no other grant, the error is [lockagent.ErrNotHeld].
func (a *Agent) Release(ctx context.Context, name lockagent.Name, owner lockagent.Owner) <-chan error {
	return a.call(name, lockagent.ErrNotHeld, &call{kind: toRelease, owner: owner, caller: ctx})
}

// ReleaseMode is [Agent.Release] for the grants of one mode. If owner has only grants of the other mode, the error is
// [lockagent.ErrNotHeld].
func (a *Agent) ReleaseMode(
	ctx context.Context, name lockagent.Name, owner lockagent.Owner, mode lockagent.Mode,
) <-chan error {
	return a.call(name, lockagent.ErrNotHeld, &call{kind: toRelease, owner: owner, mode: mode, caller: ctx})
}

// Leave ends the holds of owner on a lock, with [lockagent.LostSessionClosed], and its requests,
// with [lockagent.ErrSessionClosed]. The channel is like that of [Agent.Release].
func (a *Agent) Leave(ctx context.Context, name lockagent.Name, owner lockagent.Owner) <-chan error {
	return a.call(name, nil, &call{kind: toLeave, owner: owner, caller: ctx})
}

// call sends a call to the actor of a lock. If the lock has no actor, absent is the answer.
func (a *Agent) call(name lockagent.Name, absent error, c *call) <-chan error {
	c.done = make(chan error, 1)
	if _, err := lockagent.ParseName(string(name)); err != nil {
		c.answer(false, err)
	} else if e := a.registry.present(name, ""); e != nil {
		send(e, c)
	} else if a.registry.closed.Load() {
		c.answer(false, a.identity.closed())
	} else {
		c.answer(false, absent)
	}
	return c.done
}

// Break frees a lock, whoever holds it. It is for operators. A holder in this agent learns of
// the loss first, with [lockagent.LostBroken]. A message of the store tells all other
// holders: those in other agents, those that share the lock, and those that have permits. If the
// message is lost, they learn of it by their next renewal. To break a lock is no use of its name.
// In a grace period the break is refused, see [lockagent.GraceError].
// The channel tells whether anybody held the lock. A lock that rests counts as held. Capacity and closing are as for
// [Agent.Acquire].
//
// operator is who breaks the lock, for the holder and for the event log: a text up to
// [lockagent.MaxNameLen] bytes. If it is empty, the identity of the agent takes its place.
func (a *Agent) Break(name lockagent.Name, kind lockagent.LockKind, operator string) <-chan lockagent.Result[bool] {
	return a.breaks(name, kind, &call{kind: toBreak, operator: operator})
}

// BreakHold is [Agent.Break] for the one hold of this agent that has a token. All holds with other tokens go on: of
// another owner, of other readers, and of those who have other permits. A session that holds the lock several times
// loses all of that, and a grant for several holds ends as a whole.
//
// The result is [lockagent.ErrNotHeld] if no hold of this agent has the token when the break takes effect: then nothing
// was broken. So nothing that is granted in the meantime can end by it. A token of 0 is an [*lockagent.OptionError].
func (a *Agent) BreakHold(
	name lockagent.Name, kind lockagent.LockKind, token lockagent.Token, operator string,
) <-chan lockagent.Result[bool] {
	return a.breaks(name, kind, &call{kind: toBreak, operator: operator, one: true, token: token})
}

// breaks sends a call to break to the actor of a lock.
func (a *Agent) breaks(name lockagent.Name, kind lockagent.LockKind, c *call) <-chan lockagent.Result[bool] {
	if c.operator == "" {
		c.operator = string(a.cfg.ID)
	}
	c.broken = make(chan lockagent.Result[bool], 1)
	if err := lockagent.CheckOperator(c.operator); err != nil {
		c.answer(false, err)
	} else if !c.one && a.layers.operator == nil {
		c.answer(false, errNoOperator)
	} else if c.one && c.token == 0 {
		reason := "0 is no token of a hold; name one, or break the lock for all"
		c.answer(false, &lockagent.OptionError{Option: "token", Reason: reason})
	} else if e, kind, err := a.used(name, kind); err != nil {
		c.answer(false, err)
	} else if e != nil {
		send(e, c)
	} else if c.one {
		c.answer(false, lockagent.ErrNotHeld)
	} else {
		a.breakUnused(name, kind, c)
	}
	return c.broken
}

// breakUnused breaks a lock that this agent does not use. If somebody of this agent is granted the lock before the
// break takes effect, the message of the store tells the holder.
func (a *Agent) breakUnused(name lockagent.Name, kind lockagent.LockKind, c *call) {
	req := lockagent.BreakRequest{Name: name, Kind: kind, Operator: c.operator}
	breaks := directCall[lockagent.BreakReply]{
		agent: a,
		call: func(done func(lockagent.BreakReply, error)) {
			a.layers.operator.Break(context.Background(), req, done)
		},
		done: func(reply lockagent.BreakReply, err error) {
			a.brokeFor(name, kind, c.operator, &reply)
			c.answer(reply.Broken, err)
		},
	}
	breaks.make(name, kind)
}

// brokeFor records what a break did.
func (a *Agent) brokeFor(name lockagent.Name, kind lockagent.LockKind, operator string, reply *lockagent.BreakReply) {
	if reply.Broken {
		a.record(context.Background(), &lockagent.Event{
			Kind: lockagent.EventBroken, Lock: name, LockKind: kind, StoreTime: reply.At, Operator: operator,
		})
	}
}

// Status asks the store and this agent about a lock. The channel is like that of
// [Agent.Break].
func (a *Agent) Status(name lockagent.Name, kind lockagent.LockKind) <-chan lockagent.Result[lockagent.Status] {
	out, answer := oneResult[lockagent.Status]()
	if a.layers.operator == nil {
		answer(lockagent.Status{}, errNoOperator)
		return out
	}
	e, kind, err := a.used(name, kind)
	switch {
	case err != nil:
		answer(lockagent.Status{}, err)
	case e != nil:
		send(e, &statusMsg{answer: answer})
	default:
		a.inspect(name, kind, answer)
	}
	return out
}

// used returns the pinned entry of a lock, or nil if the agent does not use the name.
func (a *Agent) used(name lockagent.Name, kind lockagent.LockKind) (*entry, lockagent.LockKind, error) {
	kind, err := a.kind(kind)
	if err != nil {
		return nil, kind, err
	}
	if e := a.registry.present(name, kind); e != nil {
		return e, kind, nil
	}
	if _, err := lockagent.ParseName(string(name)); err != nil {
		return nil, kind, err
	}
	if a.registry.closed.Load() {
		return nil, kind, a.identity.closed()
	}
	return nil, kind, a.registry.usableAs(name, kind)
}

// inspect asks the store about a lock that this agent does not use.
func (a *Agent) inspect(name lockagent.Name, kind lockagent.LockKind, answer func(lockagent.Status, error)) {
	looks := directCall[lockagent.Inspection]{
		agent: a,
		call: func(done func(lockagent.Inspection, error)) {
			a.layers.operator.Inspect(context.Background(), name, kind, done)
		},
		done: func(i lockagent.Inspection, err error) { answer(statusOf(name, &i), err) },
	}
	looks.make(name, kind)
}

// named returns the pinned entry of a lock.
func (a *Agent) named(name lockagent.Name, kind lockagent.LockKind) (*entry, error) {
	if e := a.registry.present(name, kind.OrPlain()); e != nil { // then the name was checked
		return e, nil
	}
	if _, err := lockagent.ParseName(string(name)); err != nil {
		return nil, err
	}
	kind, err := a.kind(kind)
	if err != nil {
		return nil, err
	}
	return a.registry.pinned(name, kind)
}

func (a *Agent) storeReset(r lockagent.Reset) {
	if a.ending.over.Load() {
		return // the store may call once more after the agent has cancelled OnReset
	}
	a.record(context.Background(), &lockagent.Event{Kind: lockagent.EventStoreReset, Reset: r})
	if r.From != r.To {
		a.returns.begin(r.To)
	}
	a.toAll(lockstate.StoreReset{})
}

// inGrace is told when a grace period of the store has begun, and when it has ended.
func (a *Agent) inGrace(p lockagent.GracePeriod) {
	if a.ending.over.Load() {
		return // as for storeReset
	}
	kind := lockagent.EventGraceBegan
	if p.Ended != 0 {
		kind = lockagent.EventGraceEnded
	}
	a.record(context.Background(), &lockagent.Event{Kind: kind, Grace: &p})
}

// toAll gives a command to all actors. What the store says while the agent begins reaches the locks that are resumed
// before they go on: otherwise they would ask the store twice.
func (a *Agent) toAll(c lockstate.Command) {
	if a.identity.begun.Load() {
		a.broadcast.tell(c)
	} else {
		a.broadcast.give(c)
	}
}

// missed tells the actors to which messages may have been lost: all, or that of one lock.
func (a *Agent) missed(m lockagent.Message) {
	if m.Name == "" {
		a.toAll(lockstate.Missed{})
	} else if e := a.registry.present(m.Name, m.LockKind.OrPlain()); e != nil {
		send(e, &newsMsg{news: m})
	}
}

// hear is called by the store. A message names the kind of lock whose script sent it. That need not be the kind as
// which the agent uses the name: a break of a plain lock also ends a spin lock. The tenure tells for whom the message
// is.
func (a *Agent) hear(m lockagent.Message) {
	switch m.Kind {
	case lockagent.MessagesMissed:
		a.missed(m)
		return
	case lockagent.MessageAlone:
		a.identity.settle(verdictMine)
		return
	case lockagent.MessageTwin:
		a.yield()
		return
	}
	if m.Tenure.Agent != a.cfg.ID {
		return
	}
	if e := a.registry.present(m.Name, ""); e != nil {
		send(e, &newsMsg{news: m})
		return
	}
	// The tenure may outlive the agent, or another process may go on with it. The registry is
	// closed before the actor of such a tenure leaves.
	if a.registry.closed.Load() {
		return
	}
	// If it is of this agent, the tenure is a ghost: its release was dropped, or a failover brought it back.
	if !a.hasUsed(m.Tenure.Number) {
		return
	}
	switch m.Kind {
	case lockagent.MessagePassed, lockagent.MessageWanted, lockagent.MessageStandby:
		req := lockagent.ReleaseRequest{Name: m.Name, Kind: m.LockKind, Tenure: m.Tenure}
		c := &directCall[lockagent.ReleaseReply]{agent: a, ctx: context.Background()}
		c.call = func(done func(lockagent.ReleaseReply, error)) { a.cfg.Store.Release(c.ctx, req, done) }
		c.done = func(lockagent.ReleaseReply, error) {} // if it failed, the lease of the ghost ends it
		c.make(m.Name, m.LockKind)
	}
}

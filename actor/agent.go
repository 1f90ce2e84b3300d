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
)

// Agent is one lock manager: the actors of all locks that are in use through it.
// Make one with [New]. It is safe for concurrent use.
type Agent struct {
	cfg      Config
	locks    *lockstate.Config // the same for all
	clock    *clock
	ticks    ticks
	registry registry

	// machine makes the state machine of a lock that goes on from a snapshot, which is the zero
	// one if the lock is new. It does not change once the first lock was made.
	machine func(name lockagent.Name, from lockstate.Snapshot, shift time.Duration, now lockstate.Instant) machine

	fresh atomic.Uint64 // numbers of the steps of all locks
	wild  atomic.Bool   // a callback has ended its goroutine

	spareCalls         sync.Pool // of *call, for Release
	unclaimed, dropped sync.Once // to be logged

	deafen  func() // has the store call the agent no more; may be called again
	ending  ending
	resumed []ResumedGrant // does not change
}

// Request says how an owner wants to hold a lock.
type Request struct {
	// Owner is who asks.
	Owner lockagent.Owner
	// Lease is a fixed lease, or 0 for a lease that is kept.
	Lease time.Duration
	// Wait bounds the wait for the lock, 0 for no bound but the context. It counts
	// from the call of Acquire or Lock. One that is negative has passed already.
	Wait time.Duration
	// Session says that Owner may hold the lock several times at once. Otherwise
	// Owner must be unique to this request.
	Session bool
	// Try asks not to wait at all: the lock is granted if it is free now.
	Try bool
	// Outlive says that the lock is not given back when the agent is closed, but stays held
	// until its lease has run out. It needs a Lease.
	Outlive bool
	// Granted, if it is not nil, is called once if the lock is granted, before the grant is
	// delivered. It must not block.
	Granted func()
	// Over, if it is not nil, is called once: when the request was denied or its
	// hold is over. It must not block.
	Over func()
}

// New starts an agent. It returns an error that joins one
// [lockagent.OptionError] for each wrong field of cfg.
func New(cfg Config) (*Agent, error) { return open(cfg, nil) }

// open starts an agent, which goes on from a snapshot if there is one.
func open(cfg Config, from *AgentSnapshot) (*Agent, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	a := &Agent{cfg: cfg, locks: cfg.locks(), clock: newClock(), ending: ending{done: make(chan struct{})}}
	a.ticks.clock = a.clock
	a.machine = a.plain
	a.fresh.Store(firstNumber())
	a.registry.init(func(e *entry) *lock { return newLock(a, e) })
	a.record(context.Background(), &lockagent.Event{Kind: lockagent.EventAgentStarted})
	resumed := a.load(from) // before any message of the store can meet a lock that is not there yet
	offListen := cfg.Store.Listen(cfg.ID, a.hear)
	offReset := cfg.Store.OnReset(a.storeReset)
	a.deafen = sync.OnceFunc(func() { offReset(); offListen() })
	for _, e := range resumed {
		send(e, &resumedMsg{})
	}
	return a, nil
}

// firstNumber is random: an agent that starts again under its old identity must not use a number
// twice, and the clock may have been set back since. What follows is enough for centuries.
func firstNumber() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.LittleEndian.Uint64(b[:]) % (lockagent.MaxTenure/2 + 1)
}

// ID is the identity of the agent.
func (a *Agent) ID() lockagent.AgentID { return a.cfg.ID }

// Acquire asks for a lock. The channel has capacity 1, delivers the one grant that
// the request ends in, and is then closed by the agent. It needs no reader.
//
// The end of ctx ends the wait, with the cause of ctx. It does not end the hold:
// once somebody has received the grant, ctx does not matter any more. A grant that
// nobody has received when ctx ends, or that lies in its channel for longer than
// Config.Claim, is taken back; the channel then delivers nothing.
func (a *Agent) Acquire(ctx context.Context, name lockagent.Name, req Request) <-chan lockagent.Grant {
	r := &request{agent: a, Request: req, caller: ctx, out: make(chan lockagent.Grant, 1)}
	if req.Wait > 0 {
		r.waitUntil = a.clock.now() + lockstate.Instant(req.Wait)
	}
	out := r.out // the actor lets go of it when the grant has been received
	a.ask(ctx, name, r)
	return out
}

// ask sends a request to its lock, or answers it at once.
func (a *Agent) ask(ctx context.Context, name lockagent.Name, r *request) {
	err := check(ctx, name, r.Request)
	if err == nil {
		// A lock that is there may not know yet that the agent drains.
		if !a.registry.closed.Load() {
			r.entry = a.registry.pinned(name)
		}
		if r.entry == nil {
			err = lockagent.ErrClosed
		}
	}
	if err != nil {
		r.deny(name, err)
		return
	}
	send(r.entry, r)
}

func check(ctx context.Context, name lockagent.Name, req Request) error {
	if _, err := lockagent.ParseName(string(name)); err != nil {
		return err
	}
	if _, err := lockagent.ParseOwner(string(req.Owner)); err != nil {
		return err
	}
	if req.Lease != 0 {
		if err := lockagent.CheckLease(req.Lease); err != nil {
			return err
		}
	}
	switch {
	case req.Outlive && req.Lease == 0:
		return &lockagent.OptionError{Option: "outlive", Reason: "a lease that is kept ends with the agent; give the request a fixed lease"}
	case ctx.Err() != nil:
		return ended(ctx, name, 0)
	case req.Wait < 0:
		return &lockagent.WaitError{Name: name, TimedOut: true, Err: lockagent.ErrTimeout}
	}
	return nil
}

// Release gives up the youngest grant of a lock that owner has received. The channel
// delivers what [lockagent.Grant.ReleaseAsync] would, or [lockagent.ErrNotOwner] if
// another owner of this agent holds the lock; capacity and closing are the same. Grants that
// lie in their channels are not released so: if owner has no others, it is
// [lockagent.ErrNotHeld].
func (a *Agent) Release(name lockagent.Name, owner lockagent.Owner) <-chan error {
	return a.call(name, lockagent.ErrNotHeld, &call{kind: toRelease, owner: owner})
}

// Leave ends everything that owner holds or waits for on a lock: holds with
// [lockagent.LostSessionClosed], requests with [lockagent.ErrSessionClosed]. The
// channel is like that of [Agent.Release].
func (a *Agent) Leave(name lockagent.Name, owner lockagent.Owner) <-chan error {
	return a.call(name, nil, &call{kind: toLeave, owner: owner})
}

// call has a call answered that changes nothing about a lock without an actor: then
// absent is the answer.
func (a *Agent) call(name lockagent.Name, absent error, c *call) <-chan error {
	c.done = make(chan error, 1)
	if _, err := lockagent.ParseName(string(name)); err != nil {
		c.answer(false, err)
	} else if e := a.registry.present(name); e != nil {
		send(e, c)
	} else if a.registry.closed.Load() {
		c.answer(false, lockagent.ErrClosed)
	} else {
		c.answer(false, absent)
	}
	return c.done
}

// Break frees a lock, whoever holds it; for operators. Its holder in this agent is
// told first, with [lockagent.LostBroken]. The store tells the agent of a holder elsewhere by a
// message; if that is lost, the next renewal does. The channel tells whether anybody held the lock; capacity and
// closing are as for [Agent.Acquire].
func (a *Agent) Break(name lockagent.Name) <-chan lockagent.Result[bool] {
	c := &call{kind: toBreak, broken: make(chan lockagent.Result[bool], 1)}
	if e, err := a.named(name); err != nil {
		c.answer(false, err)
	} else {
		send(e, c)
	}
	return c.broken
}

// Status asks the store and this agent about a lock. The channel is like that of
// [Agent.Break].
func (a *Agent) Status(name lockagent.Name) <-chan lockagent.Result[lockagent.Status] {
	out := make(chan lockagent.Result[lockagent.Status], 1)
	e, err := a.named(name)
	if err != nil {
		out <- lockagent.Result[lockagent.Status]{Err: err}
		close(out)
		return out
	}
	send(e, &statusMsg{reply: out})
	return out
}

func (a *Agent) named(name lockagent.Name) (*entry, error) {
	if _, err := lockagent.ParseName(string(name)); err != nil {
		return nil, err
	}
	e := a.registry.pinned(name)
	if e == nil {
		return nil, lockagent.ErrClosed
	}
	return e, nil
}

func (a *Agent) storeReset(r lockagent.Reset) {
	if a.ending.over.Load() {
		return // it was on its way when it was called off
	}
	a.record(context.Background(), &lockagent.Event{Kind: lockagent.EventStoreReset, Reset: r})
	for e := range a.registry.all {
		send(e, &resetMsg{})
	}
}

// hear is called by the store.
func (a *Agent) hear(m lockagent.Message) {
	if m.Kind == lockagent.MessagesMissed {
		for e := range a.registry.all {
			send(e, &missedMsg{})
		}
		return
	}
	if m.Tenure.Agent != a.cfg.ID {
		return
	}
	if e := a.registry.present(m.Name); e != nil {
		send(e, &newsMsg{news: m})
		return
	}
	// A lease that has to stay has no actor any more, nor has one that another process goes on
	// with. The registry is closed before such an actor leaves.
	if a.registry.closed.Load() {
		return
	}
	// Nobody has the tenure: it was left alone, or a failover brought it back.
	if m.Kind == lockagent.MessagePassed || m.Kind == lockagent.MessageWanted {
		defer a.survive("store")
		req := lockagent.ReleaseRequest{Name: m.Name, Tenure: m.Tenure}
		a.cfg.Store.Release(context.Background(), req, func(lockagent.ReleaseReply, error) {})
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/simulate/plan"
)

// worker is a client of an agent: it asks for a lock, works, and releases the lock, again and again.
type worker struct {
	agent  *agent
	client int
	random *rand.Rand
}

func newWorker(a *agent, number int) *worker {
	client := plan.ClientOf(a.index, a.life, number)
	return &worker{agent: a, client: client, random: rand.New(rand.NewPCG(a.world.plan.Seed, uint64(10000+client)))}
}

func (w *worker) upTo(most time.Duration) time.Duration { return plan.Within(w.random, 0, most) }

// work works until the time for work is over, or the agent dies.
func (w *worker) work() {
	world := w.agent.world
	for {
		sleep(w.agent.alive, w.upTo(world.plan.Pause))
		w.agent.standStill()
		if w.agent.isDead() || world.since() > world.plan.Work {
			return
		}
		w.once(world.plan.Locks[w.random.IntN(len(world.plan.Locks))])
	}
}

// once asks for a lock, and works if it is granted.
func (w *worker) once(l plan.Lock) {
	p := &w.agent.world.plan
	var opts []channelapi.Option
	if w.random.IntN(5) == 0 {
		opts = append(opts, channelapi.Lease(plan.Within(w.random, p.Lease/4, p.Lease)))
	}
	ctx, cancel := context.WithTimeout(w.agent.alive, w.upTo(p.Patience))
	defer cancel()
	h, err := w.acquire(ctx, l, opts)
	if err != nil {
		return
	}
	takes := w.upTo(min(30*time.Millisecond, p.Longest))
	switch w.random.IntN(8) {
	case 0:
		takes = w.upTo(p.Longest)
	case 1, 2:
		takes = w.upTo(p.Longest / 12)
	}
	w.use(l, h, takes)
}

// last gets a lock when nothing goes wrong any more.
func (w *worker) last(l plan.Lock) {
	ctx, cancel := context.WithTimeout(w.agent.alive, time.Minute)
	defer cancel()
	h, err := w.acquire(ctx, l, nil)
	if err != nil {
		w.agent.world.breach(plan.Breach{
			What: plan.Stuck, Lock: l.Name, Text: fmt.Sprintf("client %d got no lock within a minute: %v", w.client, err),
		})
		return
	}
	w.use(l, h, w.upTo(10*time.Millisecond))
}

// fits reports whether a request may end with an error because of a fault.
func fits(err error) bool {
	for _, known := range []error{
		context.DeadlineExceeded, lockagent.ErrStoreUnavailable, lockagent.ErrLeaseTooShort, lockagent.ErrDeleted,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// acquire asks for a lock until ctx ends. It sets the number of permits, also again if the store has lost it.
func (w *worker) acquire(ctx context.Context, l plan.Lock, opts []channelapi.Option) (*hold, error) {
	h := &hold{world: w.agent.world, agent: w.agent, of: plan.Hold{Lock: l.Name, Client: w.client}}
	h.of.Asked = h.world.since()
	if l.Counted() {
		h.of.Permits = 1 + w.random.IntN(l.Permits)
	} else if l.Kind == lockagent.ReadWriteLock {
		h.of.Shared = w.random.IntN(3) > 0
	}
	w.agent.world.note("client %d asks for %s", w.client, l.Name)
	var err error
	for {
		h.grant, err = w.ask(ctx, l, h.of, opts)
		if !errors.Is(err, lockagent.ErrDeleted) && !(l.Counted() && errors.Is(err, lockagent.ErrStoreUnavailable)) {
			break
		}
		if sleep(ctx, 50*time.Millisecond); ctx.Err() != nil {
			break
		}
	}
	if err != nil && !fits(err) && !w.agent.isDead() {
		w.agent.world.breach(plan.Breach{What: plan.Unfit, Lock: l.Name, Text: fmt.Sprintf("client %d: %v", w.client, err)})
	}
	w.agent.world.note("client %d: %s: token %d, %v", w.client, l.Name, h.grant.Token(), err)
	if err != nil {
		h.tellWait()
		return nil, err
	}
	h.of.Granted, h.of.Token = w.agent.world.since(), uint64(h.grant.Token())
	h.of.Ending = h.of.Granted
	return h, nil
}

func (w *worker) ask(ctx context.Context, l plan.Lock, h plan.Hold, opts []channelapi.Option) (lockagent.Grant, error) {
	locks := w.agent.locks
	switch l.Kind {
	case lockagent.FairLock:
		return locks.FairLock(l.Name, opts...).Acquire(ctx)
	case lockagent.FencedLock:
		return locks.FencedLock(l.Name, opts...).Acquire(ctx)
	case lockagent.SpinLock:
		return locks.SpinLock(l.Name, opts...).Acquire(ctx)
	case lockagent.ReadWriteLock:
		if h.Shared {
			return locks.ReadLock(l.Name, opts...).Acquire(ctx)
		}
		return locks.WriteLock(l.Name, opts...).Acquire(ctx)
	case lockagent.Semaphore:
		s := locks.Semaphore(l.Name, opts...)
		if _, err := s.TrySetPermits(ctx, l.Permits); err != nil {
			return lockagent.Grant{}, err
		}
		return s.Acquire(ctx, h.Permits)
	case lockagent.Permits:
		s := locks.Permits(l.Name, opts...)
		if _, err := s.TrySetPermits(ctx, l.Permits); err != nil {
			return lockagent.Grant{}, err
		}
		return s.Acquire(ctx, h.Permits)
	}
	return locks.Lock(l.Name, opts...).Acquire(ctx)
}

// moment is how soon a client notices that its hold is over.
const moment = time.Millisecond

// use works with a lock, and releases it.
func (w *worker) use(l plan.Lock, h *hold, takes time.Duration) {
	world := w.agent.world
	r := world.registers[l.Name]
	h.agent.keep(h)
	r.enter(h)
	r.write(h)
	h.last(takes)
	h.agent.standStill()
	r.write(h)
	left := h.look()
	r.leave(h)
	releasing := world.since()
	err := h.grant.Release(h.agent.alive)
	h.agent.drop(h)
	h.of.Ended = world.since()
	var lost *lockagent.LostError
	if h.of.Lost = h.lost || errors.As(err, &lost); !h.of.Lost {
		h.of.Ending = releasing
	}
	// A release that arrives when the lease is over is denied, too: the hold has ended before.
	h.of.Denied = lost != nil && lost.Reason == lockagent.LostDenied && (left <= 0 || h.of.Ended < releasing+left)
	world.note("client %d: %s: released, %v", w.client, l.Name, err)
	world.tellJSON('H', h.of)
}

// last waits until the work is done, or the hold is over.
func (h *hold) last(takes time.Duration) {
	done := time.After(takes)
	for {
		select {
		case <-h.grant.Done():
			if !h.agent.isDead() {
				h.of.Ending = max(h.of.Granted, h.agent.world.since()-moment)
				return
			}
		case <-h.agent.alive.Done():
		case <-done:
			return
		}
		if !h.goesOn() {
			return
		}
	}
}

// waitOn waits for the lock on behalf of a request of the life before, however long that takes.
func (w *worker) waitOn(r *actor.ResumedRequest) {
	world := w.agent.world
	h := &hold{world: world, agent: w.agent, of: plan.Hold{
		Lock: string(r.Name), Client: w.client, Shared: r.Mode == lockagent.Shared, Asked: world.since(),
	}}
	l := world.lock(h.of.Lock)
	if l.Counted() {
		h.of.Permits = max(1, r.Permits)
	}
	select {
	case h.grant = <-r.Grant:
	case <-w.agent.alive.Done():
		return
	}
	if !h.grant.Held() {
		return
	}
	h.of.Granted, h.of.Token = world.since(), uint64(h.grant.Token())
	h.of.Ending = h.of.Granted
	w.use(l, h, w.upTo(30*time.Millisecond))
}

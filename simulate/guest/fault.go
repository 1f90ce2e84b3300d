package main

import (
	"time"

	"github.com/lockagent/lockagent/simulate/plan"
)

// copy makes the copy that serves after a failover.
func (w *world) copy(number int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.redis != nil {
		w.copies[number] = w.redis.copy(w.random)
	}
}

// copied returns the copy for a fault, or nil if there was nothing to copy.
func (w *world) copied(number int) *redis {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.copies[number]
}

// inflict has something go wrong.
func (w *world) inflict(number int, f plan.Fault) {
	until := time.Now().Add(f.For)
	of := w.party(f.Agent)
	link := of.network()
	switch f.Kind {
	case plan.Cut:
		link.cut()
	case plan.Apart:
		link.separate(until)
	case plan.Stall:
		link.stall(until, up, down)
	case plan.Mute:
		link.stall(until, up)
	case plan.Deaf:
		link.stall(until, down)
	case plan.Slow:
		link.slowDown(until)
	case plan.Freeze:
		w.freeze(until)
	case plan.Flush:
		if r := w.server(); r != nil {
			r.flush()
		}
	case plan.Restart:
		w.replace(nil, f.For)
	case plan.Failover:
		w.replace(w.copied(number), f.For)
	case plan.Split:
		w.split(link, w.copied(number), f.For)
	case plan.Step:
		if r := w.server(); r != nil {
			r.step(f.Lag)
		}
	case plan.Kill, plan.Resume:
		if of.isDead() {
			return
		}
		of.kill(f.Kind == plan.Resume)
		time.Sleep(f.For)
		w.start(f.Agent, of.next(f.Kind == plan.Resume))
	case plan.Suspend:
		of.suspend(until)
		link.stall(until, up, down)
	}
}

func (w *world) freeze(until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stands = later(w.stands, until)
}

// replace kills the server. After a while another one serves, which is empty if to is nil.
func (w *world) replace(to *redis, after time.Duration) {
	w.mu.Lock()
	old := w.redis
	w.redis = nil
	w.mu.Unlock()
	w.cutAll(nil)
	if old != nil {
		old.close()
	}
	time.Sleep(after)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.redis != nil {
		return // another fault was faster
	}
	if to == nil {
		at := w.clock
		if old != nil {
			at = old.clock.next()
		}
		to = newRedis(w.random, at)
	}
	w.redis = to
}

// cutAll breaks the connections of all parties but one.
func (w *world) cutAll(but *link) {
	for i := range w.plan.Parties() {
		if l := w.party(i).network(); l != but {
			l.cut()
		}
	}
}

// split has a copy serve all parties but one, which stays with the server of before for a while.
func (w *world) split(stays *link, to *redis, lasts time.Duration) {
	w.mu.Lock()
	old := w.redis
	if old == nil || to == nil {
		w.mu.Unlock()
		return
	}
	w.redis = to
	w.mu.Unlock()
	stays.stay(old)
	w.cutAll(stays)
	time.Sleep(lasts)
	stays.stay(nil)
	stays.cut()
	old.close()
}

package main

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/simulate/plan"
)

// eventLog is the event log of one agent. It has no queue: what an agent recorded is in the log.
type eventLog struct {
	world   *world
	agent   lockagent.AgentID
	epoch   uint64
	follows events.Place // the last record of the epoch before

	mu    sync.Mutex // guards what follows
	seq   uint64
	dead  bool
	holds int
	sum   uint64 // of these

	store     string
	shown     lockagent.StoreTime // what the clock of the store showed last,
	seen      time.Time           // and when
	confirmed lockagent.StoreTime // the last renewal
	over      lockagent.StoreTime // then all leases that were renewed are over
	lease     time.Duration       // that the agent keeps
}

func newEventLog(w *world, id lockagent.AgentID) *eventLog {
	return &eventLog{world: w, agent: id, epoch: 1}
}

// next is the log of the next process of the agent, when this one has ended.
func (l *eventLog) next() *eventLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := newEventLog(l.world, l.agent)
	next.epoch, next.follows = l.epoch+1, events.Place{Epoch: l.epoch, Seq: l.seq}
	return next
}

// Record writes an event into the log.
func (l *eventLog) Record(_ context.Context, e lockagent.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return
	}
	l.see(&e)
	if e.Kind != lockagent.EventAlive && e.Kind != lockagent.EventRenewed {
		l.write(e)
	}
}

// see notes what signs of life tell.
func (l *eventLog) see(e *lockagent.Event) {
	if e.Store != "" {
		l.store = e.Store
	}
	switch e.Kind {
	case lockagent.EventAgentStarted:
		l.holds, l.sum = e.Count, e.Sum
	case lockagent.EventGranted:
		l.holds++
		l.sum += lockagent.HoldSum(e.Lock, e.Tenure, e.Token)
		if e.How == lockagent.ByStore {
			l.read(cmp.Or(e.Confirmed, e.StoreTime))
		}
	case lockagent.EventRenewed:
		l.confirmed = max(l.confirmed, e.StoreTime)
		l.over = max(l.over, e.StoreTime.Add(e.Lease))
		l.read(e.StoreTime)
	case lockagent.EventReturned:
		l.read(e.Returned)
	case lockagent.EventAlive:
		l.lease = max(l.lease, e.Lease)
		l.read(e.StoreTime)
	case lockagent.EventStoreReset:
		l.confirmed, l.over = 0, 0
		l.read(e.Reset.Before)
	default:
		if e.Kind.EndsHold() && e.Count == 0 {
			l.holds--
			l.sum -= lockagent.HoldSum(e.Lock, e.Tenure, e.Token)
		}
	}
}

// read notes what the clock of the store showed.
func (l *eventLog) read(t lockagent.StoreTime) {
	if t != 0 {
		l.shown, l.seen = t, time.Now()
	}
}

// live writes signs of life until the agent is dead.
func (l *eventLog) live() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return
	}
	l.beat()
	time.AfterFunc(plan.Heartbeat, l.live)
}

// beat writes a sign of life. It expects mu to be held.
func (l *eventLog) beat() {
	e := lockagent.Event{
		Kind: lockagent.EventAlive, Time: time.Now(), Store: l.store, Agent: l.agent,
		Count: l.holds, Sum: l.sum, Confirmed: l.confirmed, Lease: l.lease,
	}
	if l.confirmed != 0 {
		e.Lease = max(e.Lease, l.over.Sub(l.confirmed))
	}
	if l.shown != 0 {
		e.StoreTime = l.shown.Add(time.Since(l.seen))
	}
	l.write(e)
}

func (l *eventLog) write(e lockagent.Event) {
	l.seq++
	r := events.Record{Event: e, Epoch: l.epoch, Seq: l.seq}
	if e.Kind == lockagent.EventAgentStarted {
		r.Follows = l.follows
	}
	l.world.tell('R', string(events.Append(nil, r)))
}

// end is called when the agent dies. It records nothing more.
func (l *eventLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
}

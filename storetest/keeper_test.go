package storetest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// keeper keeps the grace periods of all spoilt stores of one harness. A memory has none.
type keeper struct {
	store *memstore.Store

	mu     sync.Mutex // guards what follows
	roll   map[lockagent.AgentID]time.Duration
	period lockagent.GracePeriod                       // that goes on; the zero one if there is none
	waits  map[lockagent.AgentID]time.Time             // until when the period waits for those that have not come back
	back   map[lockagent.Name][]lockagent.RenewRequest // the tenures that were put back
	hooks  []*func(lockagent.GracePeriod)
	now    string // the present incarnation
}

func newKeeper(store *memstore.Store) *keeper {
	k := &keeper{store: store, roll: make(map[lockagent.AgentID]time.Duration)}
	store.OnReset(k.begin)
	return k
}

// begin begins a grace period.
func (k *keeper) begin(reset lockagent.Reset) {
	if reset.From == reset.To {
		return // only the clock was set
	}
	k.mu.Lock()
	k.now = reset.To
	k.back = make(map[lockagent.Name][]lockagent.RenewRequest)
	k.waits = make(map[lockagent.AgentID]time.Time)
	k.period = lockagent.GracePeriod{Incarnation: reset.To, Reason: reset.Reason, Began: reset.Before}
	for agent, lease := range k.roll {
		k.waits[agent] = time.Now().Add(lease)
		k.period.Roll = append(k.period.Roll, agent)
	}
	began := k.period
	k.mu.Unlock()
	k.tell(began)
}

func (k *keeper) tell(p lockagent.GracePeriod) {
	k.mu.Lock()
	hooks := slices.Clone(k.hooks)
	k.mu.Unlock()
	for _, hook := range hooks {
		(*hook)(p)
	}
}

// left is how long the grace period may still last. It ends the period if that is over.
func (k *keeper) left() time.Duration {
	k.mu.Lock()
	if k.period.Incarnation == "" {
		k.mu.Unlock()
		return 0
	}
	left, absent := time.Duration(0), []lockagent.AgentID(nil)
	for agent, until := range k.waits {
		left = max(left, time.Until(until))
		absent = append(absent, agent)
	}
	ended := k.period
	if left <= 0 {
		k.period = lockagent.GracePeriod{}
	}
	k.mu.Unlock()
	if left <= 0 {
		k.store.Time(context.Background(), func(at lockagent.StoreTime, _ error) { ended.Ended = at })
		ended.Roll = absent
		k.tell(ended)
	}
	return left
}

// comes takes an agent off those for which a period waits.
func (k *keeper) comes(agent lockagent.AgentID, incarnation string) {
	k.mu.Lock()
	if incarnation == k.now {
		delete(k.waits, agent)
	}
	k.mu.Unlock()
	k.left()
}

// waitForNobody ends a period early.
func (k *keeper) waitForNobody() {
	k.mu.Lock()
	clear(k.waits)
	k.mu.Unlock()
	k.left()
}

// join has a store keep grace periods.
func (k *keeper) join(s *spoilt) {
	acquire, renew, listen, breakLock, permits := s.acquire, s.renew, s.listen, s.breakLock, s.permits
	release := s.release
	var self lockagent.AgentID
	var since string
	s.listen = func(agent lockagent.AgentID, hear func(lockagent.Message)) func() {
		k.mu.Lock()
		self, since = agent, k.now
		k.mu.Unlock()
		return listen(agent, hear)
	}
	s.acquire = func(req lockagent.AcquireRequest) (lockagent.AcquireReply, error) {
		k.mu.Lock()
		k.roll[req.Tenure.Agent] = max(k.roll[req.Tenure.Agent], req.Lease)
		k.mu.Unlock()
		if left := k.left(); left > 0 && req.Check() == nil {
			return lockagent.AcquireReply{}, &lockagent.GraceError{Name: req.Name, Left: left}
		}
		return acquire(req)
	}
	s.breakLock = func(req lockagent.BreakRequest) (lockagent.BreakReply, error) {
		if left := k.left(); left > 0 && req.Check() == nil {
			return lockagent.BreakReply{}, &lockagent.GraceError{Name: req.Name, Left: left}
		}
		return breakLock(req)
	}
	s.permits = func(req lockagent.PermitsRequest) (lockagent.PermitsReply, error) {
		if left := k.left(); left > 0 && req.Check() == nil && req.Op != lockagent.ReadPermits {
			return lockagent.PermitsReply{}, &lockagent.GraceError{Name: req.Name, Left: left}
		}
		return permits(req)
	}
	s.renew = func(req lockagent.RenewRequest) (lockagent.RenewReply, error) {
		reply, err := renew(req)
		if err == nil && !reply.Held && req.Last > 0 && k.left() > 0 && k.mayHave(s, req) {
			reply.Held = true
			k.putBack(acquire, permits, req)
		}
		return reply, err
	}
	s.release = func(req lockagent.ReleaseRequest) (lockagent.ReleaseReply, error) {
		reply, err := release(req)
		reply.Released = reply.Released || err == nil && req.Last > 0 && k.left() > 0
		return reply, err
	}
	s.reasserted = func(incarnation string) {
		k.mu.Lock()
		if incarnation == lockagent.PresentIncarnation && since == k.now {
			incarnation = k.now
		}
		k.mu.Unlock()
		k.comes(self, incarnation)
	}
	s.left = func() {
		k.mu.Lock()
		delete(k.roll, self)
		now := k.now
		k.mu.Unlock()
		k.comes(self, now)
	}
	s.onGrace = func(f func(lockagent.GracePeriod)) func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.hooks = append(k.hooks, &f)
		return func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.hooks = slices.DeleteFunc(k.hooks, func(other *func(lockagent.GracePeriod)) bool { return other == &f })
		}
	}
}

// mayHave reports whether a tenure may have its lock again. It ends those of before that have the lock.
func (k *keeper) mayHave(s *spoilt, req lockagent.RenewRequest) bool {
	if req.Kind == lockagent.Semaphore || req.Kind == lockagent.Permits {
		return true
	}
	k.mu.Lock()
	others := slices.DeleteFunc(slices.Clone(k.back[req.Name]), func(other lockagent.RenewRequest) bool {
		return other.Mode == lockagent.Shared && req.Mode == lockagent.Shared
	})
	k.mu.Unlock()
	if slices.ContainsFunc(others, func(other lockagent.RenewRequest) bool { return other.Last > req.Last }) {
		return false
	}
	for _, other := range others {
		_, _ = s.release(lockagent.ReleaseRequest{Name: req.Name, Kind: req.Kind, Tenure: other.Tenure})
	}
	return true
}

// putBack gives a tenure back what it had.
func (k *keeper) putBack(
	acquire func(lockagent.AcquireRequest) (lockagent.AcquireReply, error),
	permits func(lockagent.PermitsRequest) (lockagent.PermitsReply, error), req lockagent.RenewRequest,
) {
	again := lockagent.AcquireRequest{
		Name: req.Name, Kind: req.Kind, Mode: req.Mode, Tenure: req.Tenure, Lease: req.Lease, Floor: req.Last,
		Permits: req.Permits,
	}
	change := func(op lockagent.PermitsOp, n int) (reply lockagent.PermitsReply) {
		if req.Kind == lockagent.Semaphore || req.Kind == lockagent.Permits {
			reply, _ = permits(lockagent.PermitsRequest{
				Name: req.Name, Kind: req.Kind, Op: op, N: n, Change: string(lockagent.NewAgentID()),
			})
		}
		return reply
	}
	k.mu.Lock()
	latest := !slices.ContainsFunc(
		k.back[req.Name], func(other lockagent.RenewRequest) bool { return other.Last > req.Last },
	)
	k.back[req.Name] = append(k.back[req.Name], req)
	k.mu.Unlock()
	if seen := change(lockagent.ReadPermits, 0); latest {
		change(lockagent.AddPermits, req.Total-seen.Free-seen.Taken)
	}
	change(lockagent.AddPermits, req.Permits) // so that enough are free
	_, _ = acquire(again)
	change(lockagent.AddPermits, -req.Permits)
}

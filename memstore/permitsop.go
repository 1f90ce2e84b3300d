package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/lockagent/lockagent"
)

// Permits implements [lockagent.Counters].
func (s *Store) Permits(_ context.Context, req lockagent.PermitsRequest, done func(lockagent.PermitsReply, error)) {
	call(s, req, (*memory).permits, done)
}

// change is what the memory remembers of a change, for as long as it remembers a withdrawal.
type change struct {
	reply lockagent.PermitsReply
	until time.Time
}

// changeID names a change. Each name has its own.
type changeID struct {
	name lockagent.Name
	id   string
}

func (m *memory) permits(v *visit, req lockagent.PermitsRequest) (lockagent.PermitsReply, error) {
	id := changeID{req.Name, req.Change}
	if c := m.changes[id]; v.now.Before(c.until) && req.Op != lockagent.ReadPermits {
		return c.reply, nil
	}
	if _, err := m.rulesFor(req.Name, req.Kind, v); err != nil {
		return lockagent.PermitsReply{}, err
	}
	if l := m.lock(req.Name, v.now); l.value {
		return lockagent.PermitsReply{}, lockagent.ErrWrongType
	}
	_, s, back := m.keepPermits(v, req.Name, req.Kind)
	if err := s.bounds(req); err != nil {
		if back {
			m.offer(v, req.Name)
		}
		return lockagent.PermitsReply{}, err
	}
	before, at := s.free, m.clock.at(v.now) // permits that are passed on are granted later
	reply := s.operate(req, v.now)
	switch {
	case req.Op == lockagent.DeletePermits:
		v.wake(m.subscribers(req.Name))
	case back, s.free > before, s.free < before && req.Kind == lockagent.Permits:
		// If there are fewer, the first request may be too large.
		m.offer(v, req.Name)
		if s.free <= 0 && s.free > before && req.Kind == lockagent.Permits {
			v.wake(m.subscribers(req.Name)) // those that want more permits than there were ask again
		}
	}
	reply.Exists, reply.Free, reply.Taken, reply.At = s.exists, s.free, s.taken(req.Kind), at
	if req.Op != lockagent.ReadPermits {
		m.grow(v.now)
		m.changes[id] = change{reply, v.now.Add(Retention)}
	}
	return reply, nil
}

// bounds returns an error if a change would make too many permits, or too few.
func (s *semaphore) bounds(req lockagent.PermitsRequest) error {
	if req.Op != lockagent.AddPermits {
		return nil
	}
	sum := s.free + req.N
	if req.N > 0 {
		sum += s.taken(req.Kind)
	}
	if req.N > 0 && sum > lockagent.MaxPermits || req.N < 0 && sum < -lockagent.MaxPermits {
		return &lockagent.OptionError{
			Option: "number of permits",
			Reason: fmt.Sprintf("there would be %d; add fewer, so that there are between %d and %d",
				sum, -lockagent.MaxPermits, lockagent.MaxPermits),
		}
	}
	return nil
}

// operate changes the numbers of a semaphore.
func (s *semaphore) operate(req lockagent.PermitsRequest, now time.Time) (reply lockagent.PermitsReply) {
	switch req.Op {
	case lockagent.TrySetPermits:
		if !s.exists {
			s.exists, s.free, reply.Done = true, req.N, true
		}
	case lockagent.SetPermits:
		s.exists, s.free, reply.Done = true, req.N-s.taken(req.Kind), true
	case lockagent.AddPermits:
		s.exists, s.free, reply.Done = true, s.free+req.N, true
	case lockagent.DrainPermits:
		if reply.N = max(0, s.free); reply.N > 0 {
			s.free, reply.Done = 0, true
		}
	case lockagent.ReleasePermit:
		if _, ok := s.ids[req.ID]; ok {
			delete(s.ids, req.ID)
			s.free++
			reply.Done = true
		}
	case lockagent.ExtendPermit:
		if _, reply.Done = s.ids[req.ID]; reply.Done {
			s.prolong(req.ID, until(now, req.Lease))
		}
	case lockagent.DeletePermits:
		reply.Done = s.exists
		s.exists, s.free, s.takers = false, 0, nil
		clear(s.ids)
	}
	return reply
}

// PlantPermit has another program take a free permit of a semaphore of the kind [lockagent.Permits].
// If lease is 0, it has no end. It is for tests.
func (s *Store) PlantPermit(name lockagent.Name, id lockagent.PermitID, lease time.Duration) {
	m := s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	v := visit{by: s, now: time.Now()}
	_, sem, _ := m.keepPermits(&v, name, lockagent.Permits)
	sem.free--
	sem.ids[id] = time.Time{}
	if lease > 0 {
		sem.ids[id] = until(v.now, lease)
	}
}

package script

import (
	"errors"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// An agent without queues cannot count who listens. It leaves places alone, and takes what is free, whoever waits.
func TestAnUnqueuedAgentBesideAQueue(t *testing.T) {
	for _, kind := range []lockagent.LockKind{lockagent.Semaphore, lockagent.Permits} {
		t.Run(string(kind), func(t *testing.T) {
			s := start(t)
			s.do("SET", "orders", "1")
			s.waits(agentB, "orders")
			ask := func(req lockagent.AcquireRequest, granted bool) {
				t.Helper()
				req.Kind, req.Permits = kind, 1
				s.room.AcquirePermits(&s.call, &req, s.past)
				if o := s.acquired(1)[0]; o.Err != nil || o.Reply.Granted != granted {
					t.Errorf("%+v; want it granted: %t", o, granted)
				}
				if places := s.do("ZCARD", "lockagent_queue:{orders}"); req.Tenure.Agent != agentA && places != int64(1) {
					t.Errorf("%v places, want that of agent B", places)
				}
			}
			ask(wish("orders", agentA, 1), true)
			ask(queueing("orders", agentB, 1), false)
			s.room = Unqueued
			ask(wish("orders", agentC, 1), false)
			s.do("INCR", "orders")
			ask(wish("orders", agentC, 1), true)
		})
	}
}

// A failover may bring back the place of a tenure that its agent does not know any more, and permits that such tenures
// had. If the place is the first one, nobody asks the holders. So whoever asks behind it tells the agent of the place.
func TestTheFirstPlaceOfASemaphoreMayBeAGhost(t *testing.T) {
	for _, kind := range []lockagent.LockKind{lockagent.Semaphore, lockagent.Permits} {
		t.Run(string(kind), func(t *testing.T) {
			s := start(t)
			s.do("SET", "orders", "1")
			first, second := s.waits(agentB, "orders"), s.waits(agentC, "orders")
			ask := func(req lockagent.AcquireRequest, granted, queued bool) {
				t.Helper()
				req.Kind, req.Permits = kind, 1
				s.room.AcquirePermits(&s.call, &req, s.past)
				if o := s.acquired(1)[0]; o.Err != nil || o.Reply.Granted != granted || o.Reply.Queued != queued {
					t.Fatalf("%+v; want it granted: %t, queued: %t", o, granted, queued)
				}
			}
			ask(wish("orders", agentA, 1), true, false)
			ask(queueing("orders", agentB, 7), false, true)
			ask(queueing("orders", agentC, 1), false, true)
			want := lockagent.Message{
				Kind: lockagent.MessageStandby, Name: "orders", LockKind: kind, Tenure: tenure(agentB, 7),
				AskAfter: lockagent.PassLease,
			}
			if got := s.message(first); got != want {
				t.Errorf("the first one heard %+v, want %+v", got, want)
			}
			s.do("PUBLISH", AgentChannel(agentC), "the end")
			if got := s.hear(second); got != "the end" {
				t.Errorf("the second one heard %q", got)
			}
		})
	}
}

// changesOf has each change of a semaphore, of a semaphore of its own. A change of one permit is about the first one of
// agent A.
func changesOf(lock lockagent.Name) (changes []lockagent.PermitsRequest) {
	for _, kind := range []lockagent.LockKind{lockagent.Semaphore, lockagent.Permits} {
		for _, op := range []lockagent.PermitsOp{
			lockagent.TrySetPermits, lockagent.SetPermits, lockagent.AddPermits, lockagent.DrainPermits,
			lockagent.ReleasePermit, lockagent.ExtendPermit, lockagent.DeletePermits,
		} {
			req := lockagent.PermitsRequest{
				Name: lock + lockagent.Name(kind) + "/" + lockagent.Name(op), Kind: kind, Op: op, N: 7,
				Change: string(lockagent.NewAgentID()), ID: tenure(agentA, 1).PermitID(1), Lease: time.Minute,
			}
			if req.Check() == nil { // some are of one kind
				changes = append(changes, req)
			}
		}
	}
	return changes
}

func (s *server) change(req lockagent.PermitsRequest) (lockagent.PermitsReply, error) {
	s.t.Helper()
	s.room.ChangePermits(&s.call, &req, time.Minute, s.past)
	text, err := s.send(&s.call)
	if err != nil {
		return lockagent.PermitsReply{}, Refused(err.Error())
	}
	return ReadPermitsChanged(text, s.past)
}

// noChange makes each change. It expects what noBreak does, and that a look is answered.
func (s *server) noChange(when string, lock lockagent.Name, incarnation string) {
	s.t.Helper()
	for _, req := range changesOf(lock) {
		_, err := s.change(req)
		grace, refused := errors.AsType[*GraceError](err)
		if refused && (grace.Incarnation != incarnation || grace.Left < 20*time.Second) ||
			!refused && (incarnation != "" || !errors.Is(err, ErrForgotten)) {
			s.t.Errorf("%s: the change %q of the kind %q: %v", when, req.Op, req.Kind, err)
		}
		req.Op = lockagent.ReadPermits
		if _, err := s.change(req); err != nil {
			s.t.Errorf("%s: a look at the kind %q: %v", when, req.Kind, err)
		}
	}
}

// permitsComeBack puts the tenure of agent A back that has one permit of five, of the semaphore of each change.
func (s *server) permitsComeBack(lock lockagent.Name, last lockagent.Token) {
	s.t.Helper()
	for _, c := range changesOf(lock) {
		s.room.ReassertPermits(&s.call, &lockagent.RenewRequest{
			Name: c.Name, Kind: c.Kind, Tenure: tenure(agentA, 1), Lease: 30 * time.Second, Last: last, Permits: 1, Total: 5,
		}, s.past)
		outcomes := make([]Outcome[lockagent.RenewReply], 1)
		if err := ReadRenewed(s.must(&s.call), s.past, outcomes); err != nil || !outcomes[0].Reply.Held {
			s.t.Fatalf("%q has not come back: %+v, %v", c.Name, outcomes[0], err)
		}
	}
}

// allChange makes each change of semaphores of which agent A has one permit of five.
func (s *server) allChange(lock lockagent.Name) {
	s.t.Helper()
	free := map[lockagent.PermitsOp]int{
		lockagent.TrySetPermits: 4, lockagent.SetPermits: 6, lockagent.AddPermits: 11, lockagent.DrainPermits: 0,
		lockagent.ReleasePermit: 5, lockagent.ExtendPermit: 4, lockagent.DeletePermits: 0,
	}
	for _, req := range changesOf(lock) {
		r, err := s.change(req)
		if err != nil || r.Done != (req.Op != lockagent.TrySetPermits) || r.Free != free[req.Op] {
			s.t.Errorf("after the period: the change %q of the kind %q: %+v, %v", req.Op, req.Kind, r, err)
		}
	}
}

// In a grace period nobody knows how many permits there are, and who has which, so nobody changes that: holders may put
// their permits back, and the number. Nor does anybody know before somebody has looked at a database that was emptied.
func TestNoChangeOfPermitsInGrace(t *testing.T) {
	s := start(t)
	s.noChange("before anybody has looked", "orders", "")
	s.expectKeys()
	seen := s.look(Look{Grace: true, Known: "1.feed.1", Roll: []Member{annaOnTheRoll}})
	s.noChange("in the period", "orders", seen.Name)
	s.permitsComeBack("orders", 1700)
	s.noChange("the holder has come back", "orders", seen.Name)
	s.Do("DEL", graceKey)
	s.allChange("orders")
}

// A change that has taken effect is answered as before, also in a grace period: the server remembers it with the
// numbers, or has forgotten both.
func TestAChangeOfPermitsFromBeforeAGracePeriod(t *testing.T) {
	for _, kind := range []lockagent.LockKind{lockagent.Semaphore, lockagent.Permits} {
		s := start(t)
		known := s.look(Look{Grace: true})
		req := lockagent.PermitsRequest{
			Name: "orders", Kind: kind, Op: lockagent.AddPermits, N: 7, Change: string(lockagent.NewAgentID()),
		}
		before, err := s.change(req)
		if err != nil || !before.Done {
			t.Fatalf("%+v, %v", before, err)
		}
		s.Do("DEL", "lockagent_clock") // another run has the data
		s.look(Look{Grace: true, Known: known.Name, Roll: []Member{annaOnTheRoll}})
		if again, err := s.change(req); err != nil || again != before {
			t.Errorf("%s: made again: %+v, %v; want %+v", kind, again, err, before)
		}
		req.Change = string(lockagent.NewAgentID())
		if other, err := s.change(req); err == nil {
			t.Errorf("%s: another change: %+v", kind, other)
		}
	}
}

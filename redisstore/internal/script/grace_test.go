package script

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// look looks at the database.
func (s *server) look(look Look) Looked {
	s.t.Helper()
	look.Whole, look.Home = true, s.past.Home
	Incarnation(&s.call, look)
	seen, err := ReadIncarnation(s.must(&s.call))
	if err != nil {
		s.t.Fatal(err)
	}
	s.past.In(seen.Name)
	return seen
}

func (s *server) came(agent lockagent.AgentID, incarnation string) (left string) {
	s.t.Helper()
	Reasserted(&s.call, "", agent, incarnation)
	return s.must(&s.call)
}

// settle has the time pass that a grace period lasts in any case.
func (s *server) settle() { s.Do("ZADD", graceKey, "1", "-") }

// refused returns for how long a grace period lasts that refuses a request, or 0 if none does.
func (s *server) refused(req lockagent.AcquireRequest) time.Duration {
	return s.refusedAs(lockagent.PlainLock, req)
}

// refusedAs is refused for a kind.
func (s *server) refusedAs(kind lockagent.LockKind, req lockagent.AcquireRequest) time.Duration {
	s.t.Helper()
	req.Kind = kind
	switch kind {
	case lockagent.Semaphore, lockagent.Permits:
		s.room.AcquirePermits(&s.call, &req, s.past)
	case lockagent.ReadWriteLock:
		s.room.ReadWriteAcquire(&s.call, []lockagent.AcquireRequest{req}, s.past)
	default:
		s.acquires(kind)(&s.call, []lockagent.AcquireRequest{req}, s.past)
	}
	_, err := s.send(&s.call)
	if err == nil {
		return 0
	}
	grace, ok := errors.AsType[*GraceError](Refused(err.Error()))
	if !ok {
		s.t.Fatal(err)
	}
	s.past.In(grace.Incarnation)
	return grace.Left
}

// reassert puts a tenure back, and reports whether it is held.
func (s *server) reassert(req lockagent.AcquireRequest, last lockagent.Token) bool {
	s.t.Helper()
	renewals := []lockagent.RenewRequest{{
		Name: req.Name, Kind: req.Kind, Mode: req.Mode, Tenure: req.Tenure, Lease: req.Lease, Last: last,
	}}
	if req.Kind == lockagent.ReadWriteLock {
		s.room.ReadWriteReassert(&s.call, renewals, s.past)
	} else {
		s.room.Reassert(&s.call, renewals, s.past)
	}
	outcomes := make([]Outcome[lockagent.RenewReply], 1)
	if err := ReadRenewed(s.must(&s.call), s.past, outcomes); err != nil {
		s.t.Fatal(err)
	}
	if outcomes[0].Err != nil {
		s.t.Fatal(outcomes[0].Err)
	}
	return outcomes[0].Reply.Held
}

var (
	annaOnTheRoll  = Member{agentA, 30 * time.Second}
	bertaOnTheRoll = Member{agentB, 10 * time.Second}
)

// graced is a database in a grace period that waits for two agents. Nothing is there.
func graced(t *testing.T) *server {
	s := start(t)
	s.look(Look{Grace: true, Known: "1.feed.1", Roll: []Member{annaOnTheRoll, bertaOnTheRoll}})
	return s
}

// A database that nobody knows grants nothing for as long as the first agent says.
func TestGraceOfAFirstStart(t *testing.T) {
	s := start(t)
	seen := s.look(Look{Grace: true, First: time.Minute})
	if seen.Left <= 50*time.Second || seen.Left > time.Minute || seen.Awaited != nil {
		t.Errorf("%v are left, and the period waits for %q", seen.Left, seen.Awaited)
	}
	if left := s.refused(wish("orders", agentA, 1)); left <= 50*time.Second {
		t.Errorf("an acquire is told %v", left)
	}
	s.settle()
	s.grant(wish("orders", agentA, 1))
	if later := s.look(Look{Grace: true, First: time.Minute}); later.Left >= 0 || later.Name != seen.Name {
		t.Errorf("%v are left of %q, after %q", later.Left, later.Name, seen.Name)
	}
}

func TestWhetherThereIsAGracePeriod(t *testing.T) {
	for name, c := range map[string]struct {
		look  Look
		grace bool
	}{
		"off":           {look: Look{First: time.Minute, Known: "1.feed", Roll: []Member{annaOnTheRoll}}},
		"a first start": {look: Look{Grace: true}},
		"off, also for one that is deaf": {
			look: Look{Known: "1.feed.1", Deaf: true, First: time.Minute}, grace: true,
		},
		"off, but another wants one": {look: Look{Known: "1.feed.1", Roll: []Member{annaOnTheRoll}}, grace: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			if seen := s.look(c.look); seen.Left >= 0 != c.grace {
				t.Errorf("%v are left", seen.Left)
			}
			if refused := s.refused(wish("orders", agentA, 1)) > 0; refused != c.grace {
				t.Errorf("refused is %v", refused)
			}
		})
	}
}

// Only an agent that tells of all it knows begins an incarnation. A call that finds none changes nothing.
func TestOnlyAWholeLookBeginsAnIncarnation(t *testing.T) {
	s := start(t)
	for _, before := range []string{"", "1700.feed.1700"} {
		if before != "" { // of another run
			s.Do("ZADD", "lockagent_clock", "1700", before)
		}
		Incarnation(&s.call, Look{Grace: true, Self: annaOnTheRoll})
		if _, err := s.send(&s.call); err == nil || !errors.Is(Refused(err.Error()), ErrForgotten) {
			t.Errorf("a look at %q: %v", before, err)
		}
	}
	s.Do("DEL", "lockagent_clock")
	s.room.Acquire(&s.call, []lockagent.AcquireRequest{wish("orders", agentA, 1)}, s.past)
	if _, err := s.send(&s.call); err == nil || !errors.Is(Refused(err.Error()), ErrForgotten) {
		t.Errorf("an acquire: %v", err)
	}
	if keys := s.Do("KEYS", "*").([]any); len(keys) > 0 {
		t.Errorf("the database has %q", keys)
	}
}

// An agent that knows another incarnation is told of the roll, also if it knows one with that version.
func TestTheRollOfAnotherIncarnation(t *testing.T) {
	s := start(t)
	seen := s.look(Look{Self: annaOnTheRoll})
	if again := s.look(Look{Known: seen.Name, Version: seen.Version}); again.Roll != nil {
		t.Errorf("told once more of %v", again.Roll)
	}
	if other := s.look(Look{Known: "1.feed.1", Version: seen.Version}); len(other.Roll) != 1 {
		t.Errorf("told of %v", other.Roll)
	}
}

// The agents for which a period has waited may be forgotten by all. The next one waits for them, as long.
func TestAPeriodWaitsForThoseOfThePeriodBefore(t *testing.T) {
	s := graced(t)
	s.came(agentA, s.past.Incarnation)
	s.Do("DEL", "lockagent_clock", rollKey)
	s.Do("ZADD", "lockagent_clock", "1700", "1700.feed.1700 ~")
	seen := s.look(Look{Grace: true, Known: "1.feed.1"})
	if !slices.Equal(seen.Awaited, []lockagent.AgentID{agentB}) {
		t.Errorf("it waits for %q", seen.Awaited)
	}
	s.settle()
	if left := s.refused(wish("orders", agentC, 1)); left <= 5*time.Second || left > 10*time.Second {
		t.Errorf("%v are left", left)
	}
}

// Whoever begins a grace period, it waits for each agent that any agent tells of, for as long as its lease.
func TestGraceWaitsForTheRoll(t *testing.T) {
	begin := map[string]func(s *server){
		"an agent that knows all finds no name": func(s *server) {
			s.Do("FLUSHALL")
			s.look(Look{Grace: true, Known: "1.feed.1", Roll: []Member{annaOnTheRoll, bertaOnTheRoll}})
		},
		"an agent that knows nobody finds no name": func(s *server) {
			s.Do("FLUSHALL")
			s.look(Look{Grace: true, First: time.Minute})
			s.look(Look{Grace: true, Known: "1.feed.1", Roll: []Member{annaOnTheRoll, bertaOnTheRoll}})
		},
		"an agent that knows the others, and not the database, comes later": func(s *server) {
			s.Do("FLUSHALL")
			s.look(Look{Grace: true, First: time.Minute})
			s.look(Look{Grace: true, Roll: []Member{annaOnTheRoll, bertaOnTheRoll}})
		},
		"each agent tells of itself": func(s *server) {
			s.Do("FLUSHALL")
			s.look(Look{Grace: true, Known: "1.feed.1", Self: annaOnTheRoll})
			s.look(Look{Grace: true, Known: "1.feed.1", Self: bertaOnTheRoll})
		},
		"another run has the data": func(s *server) {
			s.Do("DEL", "lockagent_clock")
			s.Do("ZADD", "lockagent_clock", "1700", "1700.feed.1700")
			s.look(Look{Grace: true, First: time.Minute})
		},
		"another run in a grace period": func(s *server) {
			s.Do("DEL", "lockagent_clock")
			s.Do("ZADD", "lockagent_clock", "1700", "1700.feed.1700 ~")
			s.Do("ZADD", graceKey, "0", string(agentA))
			s.look(Look{Grace: true, Known: "1.feed.1"})
		},
	}
	for name, begin := range begin {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			s.look(Look{Grace: true, Self: annaOnTheRoll})
			s.look(Look{Grace: true, Self: bertaOnTheRoll})
			begin(s)
			seen := s.look(Look{Grace: true, First: time.Minute})
			slices.Sort(seen.Awaited)
			if want := []lockagent.AgentID{agentA, agentB}; !reflect.DeepEqual(seen.Awaited, want) {
				t.Errorf("the period waits for %q", seen.Awaited)
			}
			s.settle()
			if left := s.refused(wish("orders", agentC, 1)); left <= 20*time.Second || left > 30*time.Second {
				t.Errorf("%v are left for anna", left)
			}
			if left := s.came(agentA, "another"); left == "0" {
				t.Error("anna has come back to another incarnation")
			}
			s.came(agentA, seen.Name)
			s.look(Look{Grace: true, Known: "1.feed.1", Roll: []Member{annaOnTheRoll}}) // that is old
			if left := s.refused(wish("orders", agentC, 1)); left == 0 || left > 10*time.Second {
				t.Errorf("%v are left for berta", left)
			}
			if left := s.came(agentB, seen.Name); left != "0" {
				t.Errorf("%s are left when all have come", left)
			}
			s.grant(wish("orders", agentC, 1))
		})
	}
}

// A look may see the end of a period before the message of it arrives.
func TestWhoDidNotComeBack(t *testing.T) {
	s := graced(t)
	s.came(agentA, s.past.Incarnation)
	s.Do("ZADD", graceKey, "2", string(agentB), "1", "-")
	for range 2 {
		if seen := s.look(Look{Grace: true}); seen.Left >= 0 || !slices.Equal(seen.Awaited, []lockagent.AgentID{agentB}) {
			t.Errorf("%v are left, and %q have not come back", seen.Left, seen.Awaited)
		}
	}
	if lasts := s.Do("PTTL", graceKey).(int64); lasts <= 0 {
		t.Errorf("it stays for %d ms", lasts)
	}
}

// Who has not heard of those that came begins a period as if nobody knew the database, and shortens none.
func TestAnAgentThatIsDeaf(t *testing.T) {
	s := start(t)
	deaf := Look{Grace: true, First: time.Minute, Known: "1.feed.1", Deaf: true, Roll: []Member{bertaOnTheRoll}}
	for range 2 {
		seen := s.look(deaf)
		if seen.Left <= 50*time.Second || !slices.Equal(seen.Awaited, []lockagent.AgentID{agentB}) {
			t.Errorf("%v are left, and the period waits for %q", seen.Left, seen.Awaited)
		}
	}
	if seen := s.look(Look{Grace: true, Known: "1.feed.1", Roll: []Member{annaOnTheRoll}}); seen.Left > 30*time.Second {
		t.Errorf("%v are left when somebody has come who knew the database", seen.Left)
	}
}

// An agent may have come back before another one tells of it.
func TestGraceDoesNotWaitForWhoWasThere(t *testing.T) {
	s := start(t)
	seen := s.look(Look{Grace: true, First: time.Minute})
	s.came(agentA, seen.Name)
	s.look(Look{Grace: true, Known: "1.feed.1", Roll: []Member{annaOnTheRoll}})
	s.settle()
	s.grant(wish("orders", agentC, 1))
}

// The roll has those who call, and its version changes with it.
func TestRoll(t *testing.T) {
	s := start(t)
	if seen := s.look(Look{Grace: true}); seen.Roll != nil || seen.Version != 0 {
		t.Errorf("an empty roll is %v, version %d", seen.Roll, seen.Version)
	}
	first := s.look(Look{Self: annaOnTheRoll})
	if !reflect.DeepEqual(first.Roll, []Member{annaOnTheRoll}) || first.Version == 0 {
		t.Errorf("the roll is %v, version %d", first.Roll, first.Version)
	}
	if again := s.look(Look{Known: first.Name, Self: annaOnTheRoll, Version: first.Version}); again.Roll != nil ||
		again.Version != first.Version {
		t.Errorf("the roll has changed to %v, version %d", again.Roll, again.Version)
	}
	both := s.look(Look{Self: bertaOnTheRoll, Version: first.Version})
	if len(both.Roll) != 2 || both.Version == first.Version {
		t.Errorf("the roll is %v, version %d", both.Roll, both.Version)
	}
	Leave(&s.call, "", "0", []Member{annaOnTheRoll})
	s.must(&s.call)
	s.Do("ZADD", rollKey, "1", "10000 "+string(agentB)) // long ago
	if nobody := s.look(Look{Version: both.Version}); nobody.Roll != nil || nobody.Version == both.Version {
		t.Errorf("the roll is %v, version %d", nobody.Roll, nobody.Version)
	}
}

// The messages of a roll say whose it is.
func TestMessagesOfTheRoll(t *testing.T) {
	s := start(t)
	hears := s.listen(IncarnationChannel)
	s.look(Look{Whose: "7", Self: annaOnTheRoll})
	if text := s.hear(hears); text != "" {
		t.Errorf("heard %q; want that there is another incarnation", text)
	}
	if whose, m, ok := ReadEnrolled(s.hear(hears)); whose != "7" || m != annaOnTheRoll || !ok {
		t.Errorf("heard that %v is on the roll of %q: %t", m, whose, ok)
	}
	Leave(&s.call, "", "7", []Member{annaOnTheRoll})
	s.must(&s.call)
	if whose, agent, ok := ReadLeft(s.hear(hears)); whose != "7" || agent != agentA || !ok {
		t.Errorf("heard that %q has left the roll of %q: %t", agent, whose, ok)
	}
}

// No release passes a lock on in a grace period.
func TestNoPassInGrace(t *testing.T) {
	s := start(t)
	s.look(Look{Grace: true})
	held := wish("orders", agentA, 1)
	s.grant(held)
	s.waits(agentB, "orders")
	s.acquire(queueing("orders", agentB, 1))
	s.Do("DEL", "lockagent_clock")
	s.Do("ZADD", "lockagent_clock", "1700", "1700.feed.1700")
	s.look(Look{Grace: true, Known: "1.feed.1", Roll: []Member{bertaOnTheRoll}})
	if r := s.release(end(held)); r.Passed || !r.Released {
		t.Errorf("the release: %+v", r)
	}
	if s.Do("EXISTS", "orders") != int64(0) {
		t.Error("somebody has the lock")
	}
}

// Nobody knows in a grace period who has a lock, so nobody breaks it: its holder may put it back. Nor does anybody know
// before somebody has looked at a database that was emptied.
func TestNoBreakInGrace(t *testing.T) {
	s := start(t)
	s.noBreak("before anybody has looked", "orders", "")
	seen := s.look(Look{Grace: true, Known: "1.feed.1", Roll: []Member{annaOnTheRoll}})
	s.noBreak("in the period", "orders", seen.Name)
	s.Do("DEL", graceKey)
	if r := s.breaks("orders"); r.Broken {
		t.Errorf("the break of nothing: %+v", r)
	}
}

// A tenure is put back as it was, unless another one that came later claims the lock, or another program has it.
func TestReassert(t *testing.T) {
	const name lockagent.Name = "orders"
	writes, reads := lockagent.Exclusive, lockagent.Shared
	type claim struct {
		agent lockagent.AgentID
		mode  lockagent.Mode
		last  lockagent.Token
		held  bool
	}
	const foreign lockagent.AgentID = "11111111-1111-4111-8111-111111111111:7" // of Redisson
	before := func(what string, holder lockagent.AgentID) [2]string { return [2]string{what, string(holder)} }
	for what, tt := range map[string]struct {
		kinds  []lockagent.LockKind // locks with one holder, and read/write locks, if empty
		before [2]string            // what the database has, see plant
		claims []claim
	}{
		"nothing is there": {claims: []claim{{agentA, writes, 100, true}}},
		"it is there":      {before: before("tenure", agentA), claims: []claim{{agentA, writes, 100, true}}},
		"the one before":   {before: before("tenure", agentB), claims: []claim{{agentA, writes, 100, true}}},
		"another program's": {
			before: before("holder", foreign), claims: []claim{{agentA, writes, 100, false}},
		},
		"it had no holds": {claims: []claim{{agentA, writes, 0, false}}},
		"the later one first": {
			claims: []claim{{agentA, writes, 100, true}, {agentB, writes, 90, false}},
		},
		"the later one last": {
			claims: []claim{{agentA, writes, 90, true}, {agentB, writes, 100, true}, {agentA, writes, 90, false}},
		},
		"it claims twice": {claims: []claim{{agentA, writes, 100, true}, {agentA, writes, 100, true}}},
		"two readers": {
			kinds:  readWrite,
			claims: []claim{{agentA, reads, 100, true}, {agentB, reads, 90, true}, {agentA, reads, 100, true}},
		},
		"a reader after it": {
			kinds: readWrite, claims: []claim{{agentA, reads, 100, true}, {agentB, writes, 90, false}},
		},
		"a writer after it": {
			kinds:  readWrite,
			claims: []claim{{agentA, reads, 90, true}, {agentB, writes, 100, true}, {agentA, reads, 90, false}},
		},
		"a writer before": {
			kinds: readWrite, before: before("tenure", agentB), claims: []claim{{agentA, reads, 90, true}},
		},
		"a reader of Redisson": {
			kinds: readWrite, before: before("reader", foreign),
			claims: []claim{{agentA, reads, 90, true}, {agentB, writes, 100, false}},
		},
		"a writer reads by now": {
			kinds: readWrite, before: before("tenure", agentA),
			claims: []claim{{agentA, reads, 90, true}, {agentB, reads, 95, true}},
		},
	} {
		kinds := tt.kinds
		if kinds == nil {
			kinds = []lockagent.LockKind{
				lockagent.PlainLock, lockagent.FairLock, lockagent.FencedLock, lockagent.SpinLock, lockagent.ReadWriteLock,
			}
		}
		for _, kind := range kinds {
			t.Run(what+"/"+string(kind), func(t *testing.T) {
				s := graced(t)
				if tt.before[0] != "" {
					s.plant(kind, name, tt.before[0], tt.before[1])
				}
				for i, c := range tt.claims {
					req := wish(name, c.agent, 1)
					req.Kind, req.Mode = kind, c.mode
					if held := s.reassert(req, c.last); held != c.held {
						t.Errorf("claim %d: held is %v", i+1, held)
					}
				}
			})
		}
	}
}

var readWrite = []lockagent.LockKind{lockagent.ReadWriteLock}

// plant puts a holder there, for a minute.
func (s *server) plant(kind lockagent.LockKind, name lockagent.Name, what, holder string) {
	s.t.Helper()
	fields := []string{"HSET", string(name)}
	if what == "tenure" {
		holder += ":1"
	}
	switch {
	case kind != lockagent.ReadWriteLock && what == "tenure":
		fields = append(fields, holder, heldAs[kind])
	case kind != lockagent.ReadWriteLock:
		fields = append(fields, holder, "1")
	case what == "reader":
		fields = append(fields, "mode", "read", holder, "1")
	default:
		fields = append(fields, "mode", "write", holder+":write", "1")
	}
	s.Do(fields...)
	s.Do("PEXPIRE", string(name), "60000")
}

// What is put back is a tenure like any other, and later tokens are greater than its own.
func TestReassertedTenure(t *testing.T) {
	for kind := range heldAs {
		t.Run(string(kind), func(t *testing.T) {
			s := graced(t)
			ahead := lockagent.Token(s.time()) + 1_000_000_000 // of its last holds; the clock was ahead
			req := wish("orders", agentA, 1)
			req.Kind = kind
			if !s.reassert(req, ahead) {
				t.Fatal("not held")
			}
			s.lives("orders", 30*time.Second)
			s.Do("DEL", graceKey)
			r := s.acquireAs(kind, wish("orders", agentB, 1))
			if r.Granted || r.Holder != req.Tenure.String() {
				t.Errorf("another acquire: %+v", r)
			}
			s.Do("DEL", "orders")
			if r = s.acquireAs(kind, wish("orders", agentB, 2)); !r.Granted || r.Token <= ahead {
				t.Errorf("the next tenure: %+v, after %d", r, ahead)
			}
		})
	}
}

// acquireAs is acquire for locks with one holder.
func (s *server) acquireAs(kind lockagent.LockKind, req lockagent.AcquireRequest) lockagent.AcquireReply {
	s.t.Helper()
	req.Kind = kind
	s.acquires(kind)(&s.call, []lockagent.AcquireRequest{req}, s.past)
	outcomes := make([]Outcome[lockagent.AcquireReply], 1)
	if err := s.room.ReadAcquired(s.must(&s.call), s.past, outcomes); err != nil {
		s.t.Fatal(err)
	}
	if outcomes[0].Err != nil {
		s.t.Fatal(outcomes[0].Err)
	}
	return outcomes[0].Reply
}

// acquires writes acquires of locks with one holder.
func (s *server) acquires(kind lockagent.LockKind) func(*Call, []lockagent.AcquireRequest, Past) {
	return map[lockagent.LockKind]func(*Call, []lockagent.AcquireRequest, Past){
		lockagent.PlainLock: s.room.Acquire, lockagent.FairLock: s.room.FairAcquire,
		lockagent.FencedLock: s.room.AcquireFenced, lockagent.SpinLock: s.room.AcquireSpin,
	}[kind]
}

// Whoever renews a tenure that the database has forgotten does not hear that it is over.
func TestRenewalOfWhatWasForgotten(t *testing.T) {
	req := wish("orders", agentA, 1)
	renewal := lockagent.RenewRequest{Name: req.Name, Tenure: req.Tenure, Lease: req.Lease}
	forgotten := func(s *server) bool { return errors.Is(s.renewAll(renewal)[0].Err, ErrForgotten) }
	s := start(t)
	if s.look(Look{Grace: true}); forgotten(s) {
		t.Error("forgotten without a reason")
	}
	s.Do("FLUSHALL")
	if !forgotten(s) {
		t.Error("not forgotten after it was emptied")
	}
	s.look(Look{Grace: true, Known: "1.feed.1", Roll: []Member{annaOnTheRoll}})
	if !forgotten(s) {
		t.Error("not forgotten in the grace period")
	}
	name := s.past.Incarnation
	s.settle()
	s.came(agentA, name)
	if forgotten(s) {
		t.Error("forgotten after the grace period")
	}
	s.room.Reassert(&s.call, []lockagent.RenewRequest{renewal}, s.past)
	if reply, err := s.run(&s.call); err == nil {
		t.Errorf("put back after the grace period: %s", reply)
	}
}

// A holder that gives a lock up before its tenure is back has not lost the lock.
func TestReleaseOfWhatWasForgotten(t *testing.T) {
	for _, kind := range everyKind {
		t.Run(string(kind), func(t *testing.T) {
			s := graced(t)
			release := end(wish("orders", agentA, 1))
			release.Kind, release.Last = kind, 7
			late := release // the answer to an Acquire is missing
			late.Unanswered = true
			none := late // and there was no hold
			none.Last = 0
			if kind != lockagent.Semaphore && kind != lockagent.Permits {
				s.plant(kind, "orders", "written", java)
				if r := s.releaseOf(release); r.Released {
					t.Errorf("a program that is no agent has the lock, and released is %v", r.Released)
				}
				s.Do("DEL", "orders")
			}
			for _, when := range []string{"the grace period", "what comes after"} {
				for what, req := range map[string]ReleaseRequest{"a hold": release, "an unanswered one": late, "no hold": none} {
					if r := s.releaseOf(req); r.Released != (when == "the grace period" && what != "no hold") {
						t.Errorf("%s in %s: released is %v", what, when, r.Released)
					}
				}
				s.Do("DEL", graceKey)
				s.refused(wish("another", agentC, 1)) // the period is over
			}
		})
	}
}

package script

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// guard is the greatest time or token that the clock has.
func (s *server) guard() lockagent.Token {
	s.t.Helper()
	entry := s.Do("ZRANGE", "lockagent_clock", "-1", "-1", "WITHSCORES").([]any)
	n, err := strconv.ParseUint(entry[1].(string), 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return lockagent.Token(n)
}

// setBack makes the clock of the server one that was set back: what it had shown before was
// later by so much.
func (s *server) setBack(by time.Duration) lockagent.Token {
	s.t.Helper()
	guard := s.guard() + lockagent.Token(by.Microseconds())
	member := s.Do("ZRANGE", "lockagent_clock", "-1", "-1").([]any)[0].(string)
	s.Do("ZADD", "lockagent_clock", strconv.FormatUint(uint64(guard), 10), member)
	return guard
}

// Tokens grow whatever ended the tenure before. Agents that know nothing of each other see it.
func TestTokensGrow(t *testing.T) {
	for name, c := range map[string]struct {
		between func(s *server, last lockagent.AcquireReply) (known lockagent.Token)
		asking  func(s *server, last lockagent.AcquireReply, req *lockagent.AcquireRequest)
	}{
		"a release": {between: func(s *server, last lockagent.AcquireReply) lockagent.Token {
			s.release(end(wish("orders", agentA, 1)))
			return last.Token
		}},
		"a release tells of many holds, and the clock is set back": {between: func(
			s *server, last lockagent.AcquireReply,
		) lockagent.Token {
			req := end(wish("orders", agentA, 1))
			req.Last = last.Token + 3_600_000_000
			s.release(req)
			return req.Last
		}},
		"the end of its lease": {between: func(s *server, last lockagent.AcquireReply) lockagent.Token {
			s.Do("PEXPIRE", "orders", "0")
			return last.Token
		}},
		"DEL": {between: func(s *server, last lockagent.AcquireReply) lockagent.Token {
			s.Do("DEL", "orders")
			return last.Token
		}},
		"a break": {between: func(s *server, last lockagent.AcquireReply) lockagent.Token {
			s.room.Break(&s.call, lockagent.BreakRequest{Name: "orders"}, s.past)
			s.must(&s.call)
			return last.Token
		}},
		"FLUSHALL": {between: func(s *server, last lockagent.AcquireReply) lockagent.Token {
			s.Do("FLUSHALL")
			return last.Token
		}},
		"a clock set back by 50 microseconds": {between: func(s *server, _ lockagent.AcquireReply) lockagent.Token {
			s.Do("DEL", "orders")
			return s.setBack(50 * time.Microsecond)
		}},
		"a clock set back by an hour": {between: func(s *server, _ lockagent.AcquireReply) lockagent.Token {
			s.Do("DEL", "orders")
			return s.setBack(time.Hour)
		}},
		"a clock set back by a year": {between: func(s *server, _ lockagent.AcquireReply) lockagent.Token {
			s.Do("DEL", "orders")
			return s.setBack(365 * 24 * time.Hour)
		}},
		"FLUSHALL of a clock that was ahead, which the agent knows": {
			between: func(s *server, last lockagent.AcquireReply) lockagent.Token {
				s.Do("FLUSHALL")
				return last.Token + 3_600_000_000
			},
			asking: func(_ *server, last lockagent.AcquireReply, req *lockagent.AcquireRequest) {
				req.Floor = last.Token + 3_600_000_000
			},
		},
		"FLUSHALL of a clock that was ahead, which the agent knows of another lock": {
			between: func(s *server, last lockagent.AcquireReply) lockagent.Token {
				s.Do("FLUSHALL")
				return last.Token + 3_600_000_000
			},
			asking: func(s *server, last lockagent.AcquireReply, _ *lockagent.AcquireRequest) {
				s.past.Seen = last.At.Add(time.Hour)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			first := s.grant(wish("orders", agentA, 1))
			known := c.between(s, first)
			s.past = Past{Incarnation: first.Incarnation} // another agent
			for number := range uint64(3) {
				req := wish("orders", agentB, number+1)
				if c.asking != nil {
					c.asking(s, first, &req)
				}
				next := s.grant(req)
				if next.Token <= known || lockagent.Token(next.At) != next.Token {
					t.Errorf("token %d at %d, want one above %d", next.Token, next.At, known)
				}
				if late := s.guard(); late < next.Token {
					t.Errorf("the clock has %d after token %d", late, next.Token)
				}
				known = next.Token
				released := s.release(end(req))
				if released.At < next.At {
					t.Errorf("released at %d, begun at %d", released.At, next.At)
				}
			}
		})
	}
}

// A clock that was set back goes on at its own pace, ahead of the server's, beyond the tokens
// that were taken since it last was seen. All calls tell the same time.
func TestTheClockAfterItWasSetBack(t *testing.T) {
	s := start(t)
	first := s.grant(wish("orders", agentA, 1))
	guard := s.setBack(time.Hour)
	s.past = Past{Incarnation: first.Incarnation}
	busy := s.acquire(wish("orders", agentB, 1))
	late := lockagent.StoreTime(guard).Add(time.Minute)
	if busy.At <= late || busy.At.Sub(late) > time.Minute || busy.Clock == first.Clock ||
		busy.Incarnation != first.Incarnation {
		t.Fatalf("busy: %+v, want a time after %d on another clock than %q", busy, late, first.Clock)
	}
	ahead, err := strconv.ParseInt(s.Do("GET", "lockagent_ahead").(string), 10, 64)
	if err != nil || busy.Clock != busy.Incarnation+"/"+strconv.FormatInt(ahead, 10) {
		t.Errorf("clock %q, ahead by %d, %v", busy.Clock, ahead, err)
	}
	last := busy.At
	told := func(what string, at lockagent.StoreTime) {
		t.Helper()
		if at <= last || at.Sub(last) > time.Minute {
			t.Errorf("%s: %d after %d", what, at, last)
		}
		last = at
	}
	s.past = Past{} // other agents
	told("busy", s.acquire(wish("orders", agentB, 1)).At)
	s.past = Past{}
	told("renewed", s.renew(lockagent.RenewRequest{Name: "orders", Tenure: tenure(agentA, 1), Lease: time.Minute}).At)
	told("released", s.release(end(wish("orders", agentA, 1))).At)
	granted := s.grant(wish("orders", agentA, 2))
	told("granted", granted.At)
	if granted.Clock != busy.Clock {
		t.Errorf("clock %q after %q", granted.Clock, busy.Clock)
	}
	s.past = Past{}
	s.room.Break(&s.call, lockagent.BreakRequest{Name: "orders"}, s.past)
	broken, err := ReadBroken(s.must(&s.call), s.past)
	if err != nil {
		t.Fatal(err)
	}
	told("broken", broken.At)
	seen := s.look(Look{})
	if seen.Name != first.Incarnation {
		t.Errorf("incarnation %q", seen.Name)
	}
	told("incarnation", seen.At)
	if got := s.Do("ZRANGE", "lockagent_clock", "0", "-1"); !reflect.DeepEqual(got, []any{seen.Name + " +"}) {
		t.Errorf("the clock is %q", got)
	}
}

// A renewal tells the clock how late it is, also if it was set back.
func TestRenewalsRaiseTheClock(t *testing.T) {
	s := start(t)
	first := s.grant(wish("orders", agentA, 1))
	req := lockagent.RenewRequest{Name: "orders", Tenure: tenure(agentA, 1), Lease: time.Minute}
	r := s.renew(req)
	if r.At <= first.At || s.guard() != lockagent.Token(r.At) {
		t.Errorf("renewed at %d, and the clock has %d", r.At, s.guard())
	}
	guard := s.setBack(time.Hour)
	s.past = Past{}
	if r := s.renew(req); lockagent.Token(r.At) != guard || s.guard() != guard {
		t.Errorf("renewed at %d, and the clock has %d; want %d", r.At, s.guard(), guard)
	}
}

// An exact floor sets the clock no further than there, and any other floor by a minute more. If the
// server's clock was set back, nobody knows what was given out.
func TestAnExactFloor(t *testing.T) {
	const hour, minute = 3_600_000_000, 60_000_000
	for name, c := range map[string]struct {
		exact   bool
		setBack time.Duration
		others  lockagent.Token // the floor of another lock in the same script, which is not exact
		further lockagent.Token // than the floor
	}{
		"exact":                          {exact: true, further: 1},
		"not exact":                      {further: minute + 1},
		"beside one that is not":         {exact: true, others: 1, further: minute + 1},
		"on a clock set back by hours":   {exact: true, setBack: 2 * time.Hour, further: hour + minute},
		"on a clock set back by minutes": {exact: true, setBack: 5 * time.Minute, further: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			first := s.grant(wish("orders", agentA, 1))
			s.setBack(c.setBack)
			past := Past{Incarnation: first.Incarnation}
			req, other := wish("bills", agentA, 1), wish("others", agentA, 1)
			req.Floor, req.Exact, other.Floor = first.Token+hour, c.exact, c.others
			s.room.Acquire(&s.call, []lockagent.AcquireRequest{req, other}, past)
			outcomes := make([]Outcome[lockagent.AcquireReply], 2)
			if err := s.room.ReadAcquired(s.must(&s.call), past, outcomes); err != nil {
				t.Fatal(err)
			}
			if r := outcomes[0].Reply; !r.Granted || r.Token < req.Floor+c.further ||
				r.Token > req.Floor+c.further+minute/2 {
				t.Errorf("%+v for the floor %d; want a token that is %d further", r, req.Floor, c.further)
			}
			s.past = past
			for number := range uint64(3) { // it goes on at its own pace
				s.release(end(wish("orders", agentA, number+1)))
				if r := s.grant(wish("orders", agentA, number+2)); r.Token > req.Floor+c.further+minute/2 {
					t.Errorf("%+v, soon after the floor %d", r, req.Floor)
				}
			}
		})
	}
}

// One wrong number does not use up the tokens of all locks.
func TestATokenThatIsTooFarAhead(t *testing.T) {
	s := start(t)
	r := s.grant(wish("orders", agentA, 1))
	far := wish("bills", agentA, 1)
	far.Floor = r.Token + lockagent.Token((25 * time.Hour).Microseconds())
	s.room.Acquire(&s.call, []lockagent.AcquireRequest{wish("others", agentA, 1), far}, s.past)
	reply, err := s.run(&s.call)
	if err == nil || !Several(err.Error()) || !errors.Is(Refused(err.Error()), lockagent.ErrBadOption) {
		t.Errorf("a floor a day ahead: %q, %v", reply, err)
	}
	last := end(wish("orders", agentA, 1))
	last.Last = far.Floor
	s.release(last)
	if later := s.grant(wish("orders", agentA, 2)); later.Token > far.Floor {
		t.Errorf("token %d", later.Token)
	}
	s.expectKeys("orders", "lockagent_clock")
	s.past.Seen = lockagent.StoreTime(far.Floor)
	s.room.Acquire(&s.call, []lockagent.AcquireRequest{wish("others", agentA, 1)}, s.past)
	if reply, err := s.run(&s.call); err == nil || Several(err.Error()) || lockagent.Definite(Refused(err.Error())) {
		t.Errorf("a time a day ahead: %q, %v", reply, err)
	}
}

// What another program did to the clock is an error for all locks, before anything is done.
func TestAClockThatIsSpoilt(t *testing.T) {
	for name, spoil := range map[string][]string{
		"of another type": {"SET", "lockagent_clock", "1700000000000000"},
		"endless":         {"ZADD", "lockagent_clock", "+inf", "1700000000000000.00"},
		"at its end":      {"ZADD", "lockagent_clock", "9007199254740991", "1700000000000000.00"},
		"no number":       {"SET", "lockagent_ahead", "no number"},
		"no string":       {"HSET", "lockagent_ahead", "no", "string"},
		"infinite":        {"SET", "lockagent_ahead", "inf"},
		"not a number":    {"SET", "lockagent_ahead", "nan"},
		"too far ahead":   {"SET", "lockagent_ahead", "9007199254740991"},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			held := wish("held", agentA, 1)
			s.grant(held)
			s.grant(wish("broken", agentA, 1))
			s.Do("DEL", spoil[1])
			s.Do(spoil...)
			keys := s.keys()
			for _, past := range []Past{s.past, {}} {
				if spoil[1] == "lockagent_ahead" {
					past.Incarnation = "" // if nothing happens nobody looks
				}
				s.room.Acquire(&s.call, []lockagent.AcquireRequest{wish("one", agentB, 1), held}, past)
				reply, err := s.run(&s.call)
				if err == nil || !errors.Is(Refused(err.Error()), lockagent.ErrNoTokens) ||
					!strings.Contains(Refused(err.Error()).Error(), spoil[1]) {
					t.Errorf("acquired %q, %v", reply, err)
				}
			}
			s.expectKeys(keys...)
			if r := s.renew(lockagent.RenewRequest{Name: "held", Tenure: held.Tenure, Lease: time.Minute}); !r.Held {
				t.Error("the tenure is not renewed")
			}
			last := end(held)
			last.Last = s.past.Given + 5
			expect(t, s.releaseAll(last), "released, woke 0")
			r := s.breaks("broken")
			if !r.Broken || spoil[1] == "lockagent_ahead" && r.At.Sub(s.past.Seen) > time.Hour {
				t.Errorf("broken %+v, after %d", r, s.past.Seen)
			}
		})
	}
}

func TestIncarnations(t *testing.T) {
	s := start(t)
	run := s.Info("server", "run_id")[:16]
	first := s.grant(wish("orders", agentA, 1)).Incarnation
	data, of, _ := strings.Cut(first, ".")
	if of != run {
		t.Errorf("incarnation %q of run %q", first, run)
	}
	if name := s.look(Look{}).Name; name != first {
		t.Errorf("it is called %q; want %q", name, first)
	}
	// Another server has the data: the name changes with the first look, and the clock stays.
	guard := s.guard()
	s.Do("DEL", "lockagent_clock", "orders")
	s.Do("ZADD", "lockagent_clock", strconv.FormatUint(uint64(guard), 10), data+".feed")
	if r := s.grant(wish("orders", agentA, 2)); r.Incarnation != data+".feed" {
		t.Errorf("incarnation %q before the look", r.Incarnation)
	}
	guard = s.guard()
	if seen := s.look(Look{}); seen.Name != first || s.guard() != guard || lockagent.Token(seen.At) <= guard {
		t.Errorf("it is called %q at %d, and the clock has %d; want %q and %d", seen.Name, seen.At, s.guard(), first, guard)
	}
	// The agent hears of it with its next grant.
	if r := s.grant(wish("bills", agentA, 1)); r.Incarnation != first {
		t.Errorf("incarnation %q, want %q", r.Incarnation, first)
	}
	s.Do("FLUSHALL")
	r := s.grant(wish("orders", agentA, 3))
	if later, of, _ := strings.Cut(r.Incarnation, "."); later <= data || of != run {
		t.Errorf("incarnation %q after %q", r.Incarnation, first)
	}
}

// The server says for how long an incarnation has lasted. It never says too much.
func TestAgesOfIncarnations(t *testing.T) {
	s := start(t)
	look := func() (string, time.Duration) {
		t.Helper()
		seen := s.look(Look{})
		return seen.Name, seen.Age
	}
	plant := func(name string, ago time.Duration) {
		time := s.Do("TIME").([]any)
		seconds, _ := strconv.ParseInt(time[0].(string), 10, 64)
		s.Do("SET", "lockagent_since", name+" "+strconv.FormatInt(seconds*1_000_000-ago.Microseconds(), 10))
	}
	name, age := look()
	if age != 0 {
		t.Errorf("a new server is %v old", age)
	}
	plant(name, time.Hour)
	if _, age := look(); age < time.Hour {
		t.Errorf("age %v after an hour", age)
	}
	s.Do("SET", "lockagent_ahead", strconv.FormatInt(time.Hour.Microseconds(), 10))
	if _, age := look(); age >= 2*time.Hour {
		t.Errorf("age %v after an hour: it was measured by the clock of the locks", age)
	}
	s.Do("DEL", "lockagent_ahead")
	for what, spoil := range map[string]func(){
		"another name":      func() { plant("1.feed", time.Hour) },
		"a clock set back":  func() { plant(name, -time.Hour) },
		"no such key":       func() { s.Do("DEL", "lockagent_since") },
		"another text":      func() { s.Do("SET", "lockagent_since", name) },
		"another type":      func() { s.Do("DEL", "lockagent_since"); s.Do("RPUSH", "lockagent_since", name+" 1") },
		"an emptied server": func() { s.Do("FLUSHALL") },
		"a write not allowed": func() {
			s.Do("DEL", "lockagent_since")
			s.Do("CONFIG", "SET", "min-replicas-to-write", "1")
		},
	} {
		name, _ = look()
		plant(name, time.Hour)
		spoil()
		if _, age := look(); age != 0 {
			t.Errorf("%s: age %v", what, age)
		}
		s.Do("CONFIG", "SET", "min-replicas-to-write", "0")
	}
}

package script

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// A read/write lock of Redisson, of either mode: as a plain lock it is another kind. As a read/write lock it
// has a holder, and a break tells those who wait.
func TestReadWriteLockOfRedisson(t *testing.T) {
	const owner = "0fe5bd4c-5ad5-4a0b-9d2d-96a9a4a0e5b1:42"
	for _, c := range []struct {
		name    lockagent.Name
		fields  []string
		channel string
		payload string
	}{
		{"orders", []string{"mode", "read", owner, "1", "other:1", "2"}, "redisson_rwlock:{orders}", "0"},
		{"a{b}", []string{"mode", "write", owner + ":write", "1"}, "redisson_rwlock:a{b}", "1"},
	} {
		s := start(t)
		s.Do(append([]string{"HSET", string(c.name)}, c.fields...)...)
		before := s.Do("DUMP", string(c.name))
		used, _ := errors.AsType[*lockagent.KindError](s.acquireAll(wish(c.name, agentA, 1))[0].Err)
		if used == nil || used.Used != lockagent.ReadWriteLock {
			t.Errorf("%q: acquired as a plain lock: %v", c.fields, used)
		}
		s.room.ReadWriteInspect(&s.call, c.name)
		if seen, err := ReadInspected(s.must(&s.call)); err != nil || seen.Holder != owner {
			t.Errorf("%q: inspected %+v, %v", c.fields, seen, err)
		}
		if s.Do("DUMP", string(c.name)) != before {
			t.Errorf("%q was changed", c.fields)
		}
		waiter := s.listen(c.channel)
		s.room.ReadWriteBreak(&s.call, lockagent.BreakRequest{Name: c.name}, s.past)
		if r, err := ReadBroken(s.must(&s.call), s.past); err != nil || !r.Broken {
			t.Errorf("%q: %+v, %v", c.fields, r, err)
		}
		if got := s.hear(waiter); got != c.payload {
			t.Errorf("%q: heard %q, want %q", c.fields, got, c.payload)
		}
		if s.Do("EXISTS", string(c.name)) != int64(0) {
			t.Errorf("%q is still there", c.fields)
		}
	}
}

// A renewal of a reader says that a writer of another program waits.
func TestRenewalOfAReaderBesideAnOutsider(t *testing.T) {
	s := start(t)
	one := reading("x", agentA, 1)
	s.rwGrant(one)
	s.rwWanted(one, false)
	outsider := s.listen(ReadWriteChannel("x"))
	s.rwWanted(one, true)
	if _, err := outsider.Do("UNSUBSCRIBE"); err != nil {
		t.Fatal(err)
	}
	s.rwWanted(one, false)
}

// A reader that does not join, because an outsider listens, asks again soon. Redisson listens for a moment after it was
// granted the lock, and nothing tells when it stops.
func TestAReaderBesideAnOutsiderAsksAgainSoon(t *testing.T) {
	s := start(t)
	s.rwGrant(reading("x", agentA, 1))
	s.listen(ReadWriteChannel("x"))
	asks := reading("x", agentB, 1)
	asks.Queue = true
	if r := s.rwTry(asks)[0].Reply; r.Granted || r.Remaining <= 0 || r.Remaining > 300*time.Millisecond {
		t.Errorf("%+v", r)
	}
	s.listen(AgentsChannel("x"))
	s.rwGrant(asks)
}

// Each reader behind a writer of another program asks again soon: nobody tells when such a writer goes on reading.
// Otherwise the first asks for all. Whoever waits behind an agent is told.
func TestAReaderBehindAnotherProgramsWriterAsksAgainSoon(t *testing.T) {
	s := start(t)
	s.listen(AgentChannel(agentB), AgentChannel(agentC))
	ours := wish("x", agentA, 1)
	for _, c := range []struct {
		holds         []string
		waits         lockagent.Mode
		first, second time.Duration
	}{
		{[]string{"mode", "write", another + ":write", "1"}, lockagent.Shared, time.Second, time.Second},
		{[]string{"mode", "write", another, "1", another + ":write", "1"}, lockagent.Shared, time.Second, time.Second},
		{[]string{"mode", "write", another + ":write", "1"}, lockagent.Exclusive, time.Second, 0},
		{[]string{"mode", "read", another, "1"}, lockagent.Exclusive, time.Second, 0},
		{[]string{"mode", "write", ours.Tenure.String() + ":write", "1"}, lockagent.Shared, 0, 0},
	} {
		s.Do("DEL", "x", "lockagent_queue:{x}")
		s.Do(append([]string{"HSET", "x"}, c.holds...)...)
		for i, within := range []time.Duration{c.first, c.second} {
			asks := queueing("x", []lockagent.AgentID{agentB, agentC}[i], 1)
			asks.Mode = c.waits
			if r := s.rwTry(asks)[0].Reply; !r.Queued || r.AskWithin != within {
				t.Errorf("%q: tenure %d of mode %v got %+v, want a place, and to ask within %v", c.holds, i, c.waits, r, within)
			}
		}
	}
}

// A renewal of a reader says nothing of a writer whose agent is gone.
func TestRenewalOfAReaderBesideADeadWriter(t *testing.T) {
	s := start(t)
	a := s.listen(AgentChannel(agentA))
	s.rwGrant(reading("x", agentA, 1))
	s.rwWaits(wish("x", agentB, 1), tenure(agentA, 1).String())
	if m := s.message(a); m.Kind != lockagent.MessageWanted {
		t.Errorf("the agent heard %+v", m)
	}
	s.rwWanted(reading("x", agentA, 1), false)
	s.listen(AgentChannel(agentB))
	s.rwWanted(reading("x", agentA, 1), true)
}

// A writer that waits tells some of many readers. The others learn of it at their renewals.
func TestAWriterTellsSomeReaders(t *testing.T) {
	s := start(t)
	agents := make([]lockagent.AgentID, 20)
	var channels []string
	for i := range agents {
		agents[i] = lockagent.AgentID(fmt.Sprintf("%s%02d", agentA[:34], i))
		channels = append(channels, AgentChannel(agents[i]))
		s.rwGrant(reading("x", agents[i], 1))
	}
	listener := s.listen(append(channels, AgentChannel(agentC), "the end")...)
	s.rwTry(queueing("x", agentC, 1))
	s.Do("PUBLISH", "the end", "")
	told := 0
	for s.hear(listener) != "" {
		told++
	}
	if told == 0 || told > 8 {
		t.Errorf("%d readers were told", told)
	}
	for _, agent := range agents {
		s.rwWanted(reading("x", agent, 1), true)
	}
}

// A reader that leaves sets the end of the lock to that of the others. If another program reads, nobody knows that end.
func TestTheLockEndsWithTheReadersThatAreLeft(t *testing.T) {
	for _, c := range []struct {
		another bool
		most    time.Duration
	}{{false, time.Minute}, {true, time.Hour}} {
		s := start(t)
		long, other := reading("x", agentA, 1), reading("x", agentB, 1)
		long.Lease, other.Lease = time.Hour, time.Minute
		s.rwGrant(long)
		s.rwGrant(other)
		if c.another {
			s.do("HSET", "x", another, "1")
		}
		expect(t, s.rwEnd(end(long)), "released, woke 0")
		left := time.Duration(s.do("PTTL", "x").(int64)) * time.Millisecond
		if left > c.most || left < c.most-time.Minute/2 {
			t.Errorf("%v left, want %v; another program reads: %t", left, c.most, c.another)
		}
	}
}

// Readers whose agents died with their locks go out of the way of a writer, also if there are very many of them, and
// another reader set the end of the lock.
func TestVeryManyDeadReaders(t *testing.T) {
	s := start(t)
	last := reading("x", agentA, 1)
	last.Lease = time.Hour
	s.rwGrant(last)
	fields, ends := []string{"HSET", "x"}, []string{"ZADD", "lockagent_readers:{x}"}
	for i := range 2000 {
		dead := lockagent.Tenure{Agent: lockagent.AgentID(fmt.Sprintf("%s%04d", agentB[:32], i)), Number: 1}
		fields = append(fields, dead.String(), "1")
		ends = append(ends, strconv.Itoa(1000+i), dead.String())
	}
	s.Do(fields...)
	s.Do(ends...)
	s.rwEnd(end(last))
	tries := 1
	for ; !s.rwTry(wish("x", agentC, 1))[0].Reply.Granted && tries < 10; tries++ {
	}
	if tries > 3 {
		t.Errorf("the writer asked %d times", tries)
	}
}

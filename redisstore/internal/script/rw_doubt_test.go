package script

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
)

// aged lets the time of a reader of Redisson's that is in doubt come.
func (s *server) aged() {
	s.t.Helper()
	if _, ok := s.do("ZSCORE", "lockagent_doubts:{x}", java).(string); !ok {
		s.t.Fatal("the reader is not in doubt")
	}
	s.do("ZADD", "lockagent_doubts:{x}", strconv.FormatInt(s.wall(), 10), java)
}

// reads expects that a reader of Redisson's is one of the readers, or is not.
func (s *server) reads(want bool) {
	s.t.Helper()
	if got := s.do("HGET", "x", java) != nil; got != want {
		s.t.Fatalf("the reader is there: %t, want %t", got, want)
	}
}

// Readers of ours come and go. A reader of Redisson's has no key any more.
func TestDeadReaderOfRedissonIsRemoved(t *testing.T) {
	s := start(t)
	s.do("HSET", "x", "mode", "read", java, "2")
	s.do("PEXPIRE", "x", "20000")
	one, two, three := reading("x", agentA, 1), reading("x", agentB, 1), reading("x", agentC, 1)
	s.rwGrant(one)
	if ends := s.do("ZCOUNT", "lockagent_doubts:{x}", s.in(15*time.Second), s.in(20*time.Second)); ends != int64(1) {
		t.Error("the reader is not removed when the hash would have ended")
	}
	s.rwGrant(two)
	expect(t, s.rwEnd(end(one)), "released, woke 0")
	s.rwRenew(two)
	s.rwGrant(three)
	s.reads(true)
	s.aged()
	two.Lease = time.Minute
	s.rwRenew(two)
	expect(t, s.rwEnd(end(three)), "released, woke 0")
	s.reads(false)
	expect(t, s.rwEnd(end(two)), "released, woke 0")
	for _, key := range s.keys() {
		if strings.Contains(key, "x") && key != "lockagent_doubts:{x}" {
			t.Errorf("%s is left", key)
		}
	}
	s.do("HSET", "x", "mode", "read", java, "1")
	s.do("PEXPIRE", "x", "20000")
	if s.rwTry(wish("x", agentA, 2))[0].Reply.Granted {
		t.Error("granted beside a reader that may live")
	}
	s.aged()
	s.rwGrant(wish("x", agentA, 2))
}

// in is a score.
func (s *server) in(d time.Duration) string {
	s.t.Helper()
	return strconv.FormatInt(s.wall()+d.Milliseconds(), 10)
}

// A reader of Redisson's that has no key, but lives: it renews the hash. Each time it may read on for as long as that lets it.
func TestLiveReaderOfRedissonIsNotRemoved(t *testing.T) {
	one, two := reading("x", agentA, 1), reading("x", agentB, 1)
	renews := func(s *server) { s.do("PEXPIRE", "x", strconv.FormatInt(s.do("PTTL", "x").(int64)-500, 10)) }
	for what, act := range map[string]func(*server){
		"acquire": func(s *server) { renews(s); s.rwGrant(reading("x", agentC, 1)) },
		"wait":    func(s *server) { renews(s); s.rwTry(queueing("x", agentC, 1)) },
		"release": func(s *server) { renews(s); s.rwEnd(end(two)) },
		"renew":   func(s *server) { renews(s); s.rwRenew(one); s.rwTry(wish("x", agentC, 1)) },
		"its key": func(s *server) {
			s.do("SET", "{x}:"+java+":rwlock_timeout:2", "1", "PX", "20000")
			s.rwTry(wish("x", agentC, 1))
		},
		"many holds": func(s *server) {
			s.do("HSET", "x", java, "9")
			s.rwTry(wish("x", agentC, 1))
		},
		"no end": func(s *server) {
			s.do("PERSIST", "x")
			s.rwTry(wish("x", agentC, 1))
		},
	} {
		t.Run(what, func(t *testing.T) {
			s := start(t)
			s.do("HSET", "x", "mode", "read", java, "2")
			s.do("PEXPIRE", "x", "20000")
			for _, req := range []lockagent.AcquireRequest{one, two} {
				s.rwGrant(req)
			}
			s.aged()
			act(s)
			s.reads(true)
		})
	}
}

// The watchdog of a reader of Redisson's sets the hash to 30 s, however long our leases are. The reader dies, and the hash
// ends. Our readers keep our writers out all the same, until they know that a writer of Redisson's may have had the lock.
func TestReadersOutliveTheHash(t *testing.T) {
	one, two, three, writer := reading("x", agentA, 1), reading("x", agentB, 1), reading("x", agentC, 2), wish("x", agentC, 1)
	one.Lease, two.Lease = 5*time.Minute, time.Minute
	for what, act := range map[string]func(*server){
		"acquire":           func(*server) {},
		"join and leave":    func(s *server) { s.rwGrant(three); s.rwEnd(end(three)) },
		"withdraw":          func(s *server) { s.rwEnd(end(writer)) },
		"release the other": func(s *server) { expect(t, s.rwEnd(end(two)), "not released") },
		"the hash is made anew": func(s *server) {
			s.do("HSET", "x", "mode", "read", java, "1")
			s.rwGrant(three)
			s.do("HDEL", "x", java)
			expect(t, s.rwEnd(end(three)), "released, woke 0")
		},
		"a writer comes and goes": func(s *server) {
			s.do("HSET", "x", "mode", "write", java+":write", "1")
			expect(t, s.rwEnd(end(two)), "not released")
			s.do("DEL", "x")
		},
	} {
		t.Run(what, func(t *testing.T) {
			s := start(t)
			s.rwGrant(one)
			s.rwGrant(two)
			s.do("HSET", "x", java, "1")
			s.do("DEL", "x") // it ends
			act(s)
			writer := writer
			writer.Tenure.Number += 2
			if r := s.rwTry(writer)[0].Reply; r.Granted || r.Holder == "" || r.Remaining < 4*time.Minute {
				t.Errorf("%+v", r)
			}
			if s.rwRenew(one) {
				t.Error("renewed")
			}
			expect(t, s.rwEnd(end(two)), "not released")
			s.rwGrant(writer)
		})
	}
}

// A reader whose hash was gone is told so by whoever finds that out. Who waits is woken when the last such reader knows.
func TestReadersWhoseHashWasGoneAreTold(t *testing.T) {
	s, one, writer := start(t), reading("x", agentA, 1), wish("x", agentC, 1)
	s.rwGrant(one)
	agent := s.listen(AgentChannel(agentA))
	s.do("DEL", "x")
	s.do("HSET", "x", "mode", "write", java+":write", "1")
	s.do("DEL", "x")
	if r := s.rwTry(writer)[0].Reply; r.Granted || r.Holder != one.Tenure.String() {
		t.Errorf("%+v", r)
	}
	if m := s.message(agent); m != (lockagent.Message{Kind: lockagent.MessageDoubted, Name: "x", LockKind: lockagent.ReadWriteLock, Tenure: one.Tenure}) {
		t.Errorf("the agent heard %+v", m)
	}
	s.room.ReadWriteInspect(&s.call, "x")
	if seen, err := ReadInspected(s.must(&s.call)); err != nil || seen.Holder != one.Tenure.String() || seen.HoldCount != 1 {
		t.Errorf("inspected %+v, %v", seen, err)
	}
	waiter := s.listen(ReadWriteChannel("x"))
	if s.rwRenew(one) {
		t.Error("renewed")
	}
	if got := s.hear(waiter); got != "0" {
		t.Errorf("the waiter heard %q", got)
	}
	s.rwGrant(writer)
}

// A script makes the hash anew for some readers at a time. When all of these know that they have lost the lock, the next ones are told.
func TestManyReadersWhoseHashWasGoneAreTold(t *testing.T) {
	s, writer := start(t), wish("x", agentC, 1)
	const readers, together = 150, 64
	for i := range readers {
		s.rwGrant(reading("x", agentA, uint64(i)+1))
	}
	agent := s.listen(AgentChannel(agentA))
	s.do("DEL", "x")
	told := make(map[lockagent.Tenure]bool)
	for len(told) < readers {
		if r := s.rwTry(writer)[0].Reply; r.Granted || r.Holder == "" {
			t.Fatalf("after %d readers: %+v", len(told), r)
		}
		for range min(together, readers-len(told)) {
			m := s.message(agent)
			if m.Kind != lockagent.MessageDoubted || told[m.Tenure] {
				t.Fatalf("after %d readers the agent heard %+v", len(told), m)
			}
			told[m.Tenure] = true
			one := reading("x", agentA, m.Tenure.Number)
			if m.Tenure.Number%2 == 0 {
				expect(t, s.rwEnd(end(one)), "not released")
			} else if s.rwRenew(one) {
				t.Fatalf("%s was renewed", m.Tenure)
			}
		}
	}
	s.rwGrant(writer)
}

// The message that a reader has lost the lock may be lost. Whoever asks for a place repeats it, and says that the lock is wanted: an agent that
// does not know the tenure any more gives it back then.
func TestReadersWhoseHashWasGoneAreToldAgain(t *testing.T) {
	s, one, two := start(t), reading("x", agentA, 1), reading("x", agentB, 1)
	s.rwGrant(one)
	s.do("DEL", "x")
	s.rwTry(wish("x", agentC, 1))
	s.do("HSET", "x", java, "2") // it reads twice, which is no loss
	s.rwGrant(two)
	agents := s.listen(AgentChannel(agentA), AgentChannel(agentB))
	s.waits(agentC, "x")
	for range 2 {
		s.rwWaits(wish("x", agentC, 1), one.Tenure.String())
		got := map[lockagent.Tenure][]lockagent.MessageKind{}
		for range 3 {
			m := s.message(agents)
			got[m.Tenure] = append(got[m.Tenure], m.Kind)
		}
		if !slices.Equal(got[one.Tenure], []lockagent.MessageKind{lockagent.MessageWanted, lockagent.MessageDoubted}) || !slices.Equal(got[two.Tenure], []lockagent.MessageKind{lockagent.MessageWanted}) {
			t.Errorf("the agents heard %v", got)
		}
	}
}

// A reader that does not know of its grant yet has lost nothing: it begins when it is granted the lock again.
func TestAReaderWhoseHashWasGoneBeginsAgain(t *testing.T) {
	s, one, writer := start(t), reading("x", agentA, 1), wish("x", agentC, 1)
	s.rwGrant(one)
	s.do("DEL", "x")
	for range 2 {
		if s.rwTry(writer)[0].Reply.Granted {
			t.Fatal("a writer was granted the lock")
		}
		s.rwGrant(one)
	}
	if !s.rwRenew(one) {
		t.Error("not renewed")
	}
	expect(t, s.rwEnd(end(one)), "released, woke 0")
	s.rwGrant(writer)
}

// A reader that has lost the lock to another program, and knows it, keeps nobody out.
func TestLostReadersKeepNobodyOut(t *testing.T) {
	one := reading("x", agentA, 1)
	one.Lease = 5 * time.Minute
	for what, learn := range map[string]func(*server) bool{
		"renewal":       func(s *server) bool { return s.rwRenew(one) },
		"release":       func(s *server) bool { return s.rwEnd(end(one))[0].Reply.Released },
		"lost its key":  func(s *server) bool { s.do("DEL", timeoutKey(one)); return false },
		"the lock ends": func(s *server) bool { s.passes(one); return false },
	} {
		t.Run(what, func(t *testing.T) {
			s := start(t)
			if what == "the lock ends" {
				one := one
				one.Lease = time.Minute
				s.rwGrant(one)
			} else {
				s.rwGrant(one)
			}
			s.do("DEL", "x")
			s.do("HSET", "x", "mode", "write", java+":write", "1")
			if learn(s) {
				t.Error("it has the lock")
			}
			s.do("DEL", "x")
			s.rwGrant(wish("x", agentC, 1))
		})
	}
}

// A hash ends with the lease of its last reader, also if the script takes its time. Otherwise its end would look like that of another
// program.
func TestTheHashEndsWithItsLastReader(t *testing.T) {
	redistest.NeedsSharded(t) // PEXPIRETIME came with Redis 7, too
	s := start(t)
	const locks = 400 // their script takes much longer than the jitter
	all := make([]lockagent.AcquireRequest, locks)
	again := make([]lockagent.RenewRequest, locks)
	for i := range all {
		all[i] = reading(lockagent.Name(fmt.Sprint("x", i)), agentA, 1)
		again[i] = lockagent.RenewRequest{Name: all[i].Name, Tenure: all[i].Tenure, Lease: 2 * all[i].Lease}
	}
	check := func(what string) {
		t.Helper()
		for i, one := range all {
			reader, err := strconv.ParseInt(s.do("ZSCORE", fmt.Sprintf("lockagent_readers:{%s}", one.Name), one.Tenure.String()).(string), 10, 64)
			if got := s.do("PEXPIRETIME", string(one.Name)).(int64); err != nil || got < reader-2 || got > reader+2 {
				t.Fatalf("%s: hash %d ends %d ms after its reader, %v", what, i, got-reader, err)
			}
		}
	}
	s.rwTry(all...)
	check("granted")
	s.room.ReadWriteRenew(&s.call, again)
	s.must(&s.call)
	check("renewed")
}

// A reader of Redisson's has little left when one of ours joins, and dies. It keeps nobody out for longer than it would
// have without ours, however long our lease was.
func TestDeadReaderOfRedissonLastsNoLongerBesideOurs(t *testing.T) {
	one, two, writer := reading("x", agentA, 1), reading("x", agentB, 1), wish("x", agentC, 1)
	one.Lease = time.Hour
	java := "{x}:" + java + ":rwlock_timeout:"
	joins := func(s *server, lease time.Duration) { // after us
		s.do("HSET", "x", "mode", "read", strings.TrimSuffix(java[4:], ":rwlock_timeout:"), "1")
		s.do("SET", java+"1", "1", "PX", strconv.FormatInt(lease.Milliseconds(), 10))
		if s.do("PTTL", "x").(int64) < lease.Milliseconds() {
			s.do("PEXPIRE", "x", strconv.FormatInt(lease.Milliseconds(), 10))
		}
	}
	for what, c := range map[string]struct {
		act  func(*server)
		ends time.Duration // of the reader, after the beginning or a later time
	}{
		"ours joins and leaves": {func(s *server) {
			joins(s, 20*time.Second)
			s.rwGrant(one)
		}, 20 * time.Second},
		"it joins": {func(s *server) {
			s.rwGrant(one)
			joins(s, 20*time.Second)
		}, time.Minute},
		"it joins, and a writer looks": {func(s *server) {
			s.rwGrant(one)
			joins(s, 20*time.Second)
			s.rwTry(writer)
			s.do("DEL", java+"1")
		}, time.Minute},
		"it joins, and nobody looks while it has a key": {func(s *server) {
			s.rwGrant(one)
			joins(s, 20*time.Second)
			s.do("DEL", java+"1")
		}, time.Minute},
		"it renews the hash, and not its keys": {func(s *server) {
			joins(s, 20*time.Second)
			s.rwGrant(one)
			s.do("DEL", java+"1")
			s.do("PEXPIRE", "x", "40500")
			s.rwGrant(two)
			s.rwEnd(end(two))
		}, 40500 * time.Millisecond},
		"it has a key for longer": {func(s *server) {
			s.rwGrant(one)
			joins(s, 5*time.Minute)
			s.rwTry(writer)
		}, 5 * time.Minute},
		"it holds more often than anybody counts": {func(s *server) {
			s.rwGrant(one)
			joins(s, 20*time.Second)
			s.do("HSET", "x", strings.TrimSuffix(java[4:], ":rwlock_timeout:"), "9")
		}, time.Hour},
	} {
		t.Run(what, func(t *testing.T) {
			s := start(t)
			began := s.time()
			c.act(s)
			expect(t, s.rwEnd(end(one)), "released, woke 0")
			r := s.rwTry(writer)[0].Reply
			const rounded = time.Second // our scripts round up
			took := time.Duration(s.time()-began) * time.Microsecond
			if r.Granted || r.Remaining < c.ends-took || r.Remaining > c.ends+rounded {
				t.Errorf("%+v, want it to end in %v; the test took %v so far", r, c.ends, took)
			}
		})
	}
}

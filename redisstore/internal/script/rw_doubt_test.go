package script

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
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
// ends. Our readers keep our writers out all the same.
func TestReadersOutliveTheHash(t *testing.T) {
	one, two, three, writer := reading("x", agentA, 1), reading("x", agentB, 1), reading("x", agentC, 2), wish("x", agentC, 1)
	one.Lease, two.Lease = 5*time.Minute, time.Minute
	for what, act := range map[string]func(*server){
		"acquire":           func(*server) {},
		"join and leave":    func(s *server) { s.rwGrant(three); s.rwEnd(end(three)) },
		"withdraw":          func(s *server) { s.rwEnd(end(writer)) },
		"release the other": func(s *server) { expect(t, s.rwEnd(end(two)), "released, woke 0") },
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
			if !s.rwRenew(one) {
				t.Error("not renewed")
			}
			s.rwEnd(end(two))
			expect(t, s.rwEnd(end(one)), "released, woke 0")
			s.rwGrant(writer)
		})
	}
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
		act        func(*server)
		least, end time.Duration // of the reader
	}{
		"ours joins and leaves": {func(s *server) {
			joins(s, 20*time.Second)
			s.rwGrant(one)
		}, 19 * time.Second, 21 * time.Second},
		"it joins": {func(s *server) {
			s.rwGrant(one)
			joins(s, 20*time.Second)
		}, 59 * time.Second, 61 * time.Second},
		"it joins, and a writer looks": {func(s *server) {
			s.rwGrant(one)
			joins(s, 20*time.Second)
			s.rwTry(writer)
			s.do("DEL", java+"1")
		}, 59 * time.Second, 61 * time.Second},
		"it joins, and nobody looks while it has a key": {func(s *server) {
			s.rwGrant(one)
			joins(s, 20*time.Second)
			s.do("DEL", java+"1")
		}, 59 * time.Second, 61 * time.Second},
		"it renews the hash, and not its keys": {func(s *server) {
			joins(s, 20*time.Second)
			s.rwGrant(one)
			s.do("DEL", java+"1")
			s.do("PEXPIRE", "x", "40500")
			s.rwGrant(two)
			s.rwEnd(end(two))
		}, 40 * time.Second, 42 * time.Second},
		"it has a key for longer": {func(s *server) {
			s.rwGrant(one)
			joins(s, 5*time.Minute)
			s.rwTry(writer)
		}, 299 * time.Second, 301 * time.Second},
		"it holds more often than anybody counts": {func(s *server) {
			s.rwGrant(one)
			joins(s, 20*time.Second)
			s.do("HSET", "x", strings.TrimSuffix(java[4:], ":rwlock_timeout:"), "9")
		}, 59 * time.Minute, time.Hour + time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			s := start(t)
			c.act(s)
			expect(t, s.rwEnd(end(one)), "released, woke 0")
			r := s.rwTry(writer)[0].Reply
			if r.Granted || r.Remaining < c.least || r.Remaining > c.end {
				t.Errorf("%+v, want it to end in %v", r, c.end)
			}
		})
	}
}

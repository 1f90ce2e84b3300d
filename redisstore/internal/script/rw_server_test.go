package script

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/waittest"
)

// reading is a wish to read.
func reading(name lockagent.Name, agent lockagent.AgentID, number uint64) lockagent.AcquireRequest {
	req := wish(name, agent, number)
	req.Mode = lockagent.Shared
	return req
}

// rwTry tries read/write locks once.
func (s *server) rwTry(requests ...lockagent.AcquireRequest) []Outcome[lockagent.AcquireReply] {
	s.t.Helper()
	s.room.ReadWriteAcquire(&s.call, requests, s.past)
	return s.acquired(len(requests))
}

// rwGrant expects a read/write lock to be granted.
func (s *server) rwGrant(req lockagent.AcquireRequest) lockagent.AcquireReply {
	s.t.Helper()
	o := s.rwTry(req)[0]
	if o.Err != nil || !o.Reply.Granted {
		s.t.Fatalf("%s was not granted: %+v", req.Tenure, o)
	}
	return o.Reply
}

// rwWaits expects a read/write lock to be held by holder, and a tenure to get a place.
func (s *server) rwWaits(req lockagent.AcquireRequest, holder string) {
	s.t.Helper()
	req.Queue = true
	if o := s.rwTry(req)[0]; o.Err != nil || !o.Reply.Queued || o.Reply.Holder != holder {
		s.t.Fatalf("%s: %+v, want a place behind %s", req.Tenure, o, holder)
	}
}

func (s *server) rwEnd(requests ...ReleaseRequest) []Outcome[lockagent.ReleaseReply] {
	s.t.Helper()
	s.room.ReadWriteRelease(&s.call, requests, s.past)
	return s.released(len(requests))
}

func (s *server) rwRenew(req lockagent.AcquireRequest) bool {
	s.t.Helper()
	return s.rwRenewed(req).Held
}

func (s *server) rwRenewed(req lockagent.AcquireRequest) lockagent.RenewReply {
	s.t.Helper()
	s.room.ReadWriteRenew(&s.call, []lockagent.RenewRequest{{Name: req.Name, Tenure: req.Tenure, Lease: req.Lease}})
	outcomes := make([]Outcome[lockagent.RenewReply], 1)
	if err := ReadRenewed(s.must(&s.call), s.past, outcomes); err != nil || outcomes[0].Err != nil {
		s.t.Fatal(err, outcomes[0].Err)
	}
	return outcomes[0].Reply
}

// rwWanted renews a reader, and expects the reply to say whether others wait.
func (s *server) rwWanted(req lockagent.AcquireRequest, want bool) {
	s.t.Helper()
	if r := s.rwRenewed(req); !r.Held || r.Contested != want {
		s.t.Errorf("renewed %+v, want it held, and wanted: %t", r, want)
	}
}

// As TestAFullServer.
func TestReadWriteLockOnAFullServer(t *testing.T) {
	s := startOwn(t)
	held, waits := reading("held", agentA, 1), wish("held", agentB, 1)
	s.rwGrant(held)
	listener := s.waits(agentB, "held")
	s.rwWaits(waits, held.Tenure.String())
	unanswered := end(wish("another", agentA, 2))
	unanswered.Unanswered = true
	s.Do("CONFIG", "SET", "maxmemory", "1")
	s.room.ReadWriteAcquire(&s.call, []lockagent.AcquireRequest{wish("one", agentA, 3), held}, s.past)
	if reply, err := s.run(&s.call); err == nil || !errors.Is(Refused(err.Error()), lockagent.ErrStoreUnavailable) {
		t.Errorf("acquired on a full server: %q, %v", reply, err)
	}
	held.Lease = time.Hour
	if !s.rwRenew(held) {
		t.Error("not renewed on a full server")
	}
	timeout := "{held}:" + held.Tenure.String() + ":rwlock_timeout:1"
	s.do("DEL", timeout)
	held.Lease = 2 * time.Hour
	if !s.rwRenew(held) {
		t.Error("not renewed on a full server")
	}
	inAnHour := fmt.Sprint(s.wall() + time.Hour.Milliseconds())
	if n := s.do("ZCOUNT", "lockagent_readers:{held}", inAnHour, "+inf"); n != int64(1) {
		t.Error("the end of the lease was not noted")
	}
	s.expectKeys("held", "lockagent_clock", "lockagent_queue:{held}", "lockagent_readers:{held}", timeout)
	last := end(held)
	last.Last = s.past.Given + 1000
	expect(t, s.rwEnd(unanswered, last), "not released", "passed")
	for {
		m := s.message(listener)
		if m.Kind == lockagent.MessagePassed {
			if m.Token <= last.Last {
				t.Errorf("heard %+v, want a token above %d", m, last.Last)
			}
			break
		}
	}
	s.Do("CONFIG", "SET", "maxmemory", "0")
	expect(t, s.rwTry(wish("another", agentA, 2)), lockagent.ErrWithdrawn.Error())
}

// As TestAReplicaRefuses. A tombstone on a replica would be lost.
func TestReplicasRefuseFairAndReadWriteLocks(t *testing.T) {
	s := startOwn(t)
	s.rwGrant(reading("shared", agentA, 1))
	s.fairGrant(wish("fair", agentA, 1))
	s.Do("REPLICAOF", "127.0.0.1", "1") // nobody is there
	for what, write := range map[string]func(){
		"read": func() {
			s.room.ReadWriteAcquire(&s.call, []lockagent.AcquireRequest{reading("shared", agentB, 1)}, s.past)
		},
		"wait to write": func() {
			s.room.ReadWriteAcquire(&s.call, []lockagent.AcquireRequest{queueing("shared", agentB, 1)}, s.past)
		},
		"release a reader": func() {
			s.room.ReadWriteRelease(&s.call, []ReleaseRequest{end(wish("shared", agentA, 1))}, s.past)
		},
		"withdraw a writer": func() {
			s.room.ReadWriteRelease(&s.call, []ReleaseRequest{end(wish("shared", agentB, 1))}, s.past)
		},
		"acquire a fair lock": func() {
			s.room.FairAcquire(&s.call, []lockagent.AcquireRequest{wish("free", agentB, 1)}, s.past)
		},
		"wait for a fair lock": func() {
			s.room.FairAcquire(&s.call, []lockagent.AcquireRequest{queueing("fair", agentB, 1)}, s.past)
		},
		"release a fair lock": func() {
			s.room.FairRelease(&s.call, []ReleaseRequest{end(wish("fair", agentA, 1))}, s.past)
		},
		"give up a place": func() {
			s.room.FairRelease(&s.call, []ReleaseRequest{end(wish("fair", agentB, 1))}, s.past)
		},
	} {
		write()
		// Redis 6.2 puts other words in front.
		if reply, err := s.run(&s.call); err == nil || !strings.Contains(err.Error(), "READONLY") {
			t.Errorf("%s: %q, %v; want READONLY", what, reply, err)
		}
	}
}

// Another program has put something else under a key of ours. The lock works all the same.
func TestReadWriteLockBesideOtherKeys(t *testing.T) {
	keys := []string{"lockagent_queue:{x}", "lockagent_notes:{x}", "lockagent_turn:{x}", "lockagent_readers:{x}"}
	for _, key := range keys {
		t.Run(key, func(t *testing.T) {
			s := start(t)
			s.do("SET", key, "nan")
			one, two, writer := reading("x", agentA, 1), reading("x", agentB, 1), wish("x", agentC, 1)
			s.rwGrant(one)
			s.do("HSET", "x", java, "1")
			s.rwGrant(two)
			if s.rwTry(queueing("x", agentC, 1))[0].Reply.Granted {
				t.Error("a writer was granted the lock beside readers")
			}
			if !s.rwRenew(one) {
				t.Error("not renewed")
			}
			for _, req := range []lockagent.AcquireRequest{one, two} {
				last := end(req)
				last.Unanswered = true
				if r := s.rwEnd(last)[0]; r.Err != nil || !r.Reply.Released {
					t.Errorf("%+v", r)
				}
			}
			s.do("DEL", "x") // the end of the other reader
			s.rwGrant(writer)
			if r := s.rwEnd(end(writer))[0]; r.Err != nil || !r.Reply.Released {
				t.Errorf("%+v", r)
			}
		})
	}
}

// Redisson wakes one waiter of a program at "0", and all of them at "1".
func TestMessagesOfAReadWriteLock(t *testing.T) {
	s := start(t)
	releases := func(req lockagent.AcquireRequest) {
		s.room.ReadWriteRelease(&s.call, []ReleaseRequest{end(req)}, s.past)
	}
	renewal := func(req lockagent.AcquireRequest) lockagent.RenewRequest {
		return lockagent.RenewRequest{Name: req.Name, Tenure: req.Tenure, Lease: req.Lease, Mode: lockagent.Shared}
	}
	for i, c := range []struct {
		mode lockagent.Mode
		does func(lockagent.AcquireRequest)
		told string
	}{
		{lockagent.Shared, releases, "0"},
		{"", releases, "1"},
		{"", func(req lockagent.AcquireRequest) { // becomes a reader
			s.room.ReadWriteRenew(&s.call, []lockagent.RenewRequest{renewal(req)})
		}, "1"},
	} {
		req := wish(lockagent.Name(fmt.Sprint(i)), agentA, 1) // each lock has its turns
		req.Mode = c.mode
		s.rwGrant(req)
		channel := s.listen("redisson_rwlock:{" + string(req.Name) + "}")
		c.does(req)
		s.must(&s.call)
		if told := s.hear(channel); told != c.told {
			t.Errorf("case %d: told %q, want %q", i, told, c.told)
		}
	}
}

// A reader of ours is passed the lock of a writer. Redisson's waiters are told: if they want to read, too, they may
// share it.
func TestAPassToAReaderTellsOutsiders(t *testing.T) {
	s, passes := start(t), 0
	for i := range 2 { // one release is a pass, the other one is the turn of the outsiders
		writer, reader := wish("pages", agentA, uint64(i)+1), reading("pages", agentB, uint64(i)+1)
		waittest.Until(t, "the end of the turn", func() bool { return s.rwTry(writer)[0].Reply.Granted })
		s.listen(AgentChannel(agentB), AgentsChannel("pages"), ReadWriteChannel("pages"))
		outsider := s.listen(ReadWriteChannel("pages"))
		s.rwWaits(reader, writer.Tenure.String())
		if s.rwEnd(end(writer))[0].Reply.Passed {
			passes++
		}
		if told := s.hear(outsider); told != "1" {
			t.Errorf("told %q", told)
		}
		s.rwEnd(end(reader))
	}
	if passes != 1 {
		t.Errorf("%d passes", passes)
	}
}

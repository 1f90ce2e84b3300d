package script

import (
	"strconv"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// queues are the kinds and modes whose releases pass to a tenure that waits.
var queues = []struct {
	what    string
	kind    lockagent.LockKind
	mode    lockagent.Mode
	acquire func(Room, *Call, []lockagent.AcquireRequest, Past)
	release func(Room, *Call, []ReleaseRequest, Past)
}{
	{"plain", lockagent.PlainLock, lockagent.Exclusive, Room.Acquire, Room.Release},
	{"fair", lockagent.FairLock, lockagent.Exclusive, Room.FairAcquire, Room.FairRelease},
	{"read", lockagent.ReadWriteLock, lockagent.Shared, Room.ReadWriteAcquire, Room.ReadWriteRelease},
	{"write", lockagent.ReadWriteLock, lockagent.Exclusive, Room.ReadWriteAcquire, Room.ReadWriteRelease},
	{"semaphore", lockagent.Semaphore, lockagent.Exclusive, acquireOnePermit, releaseOnePermit},
	{"permits", lockagent.Permits, lockagent.Exclusive, acquireOnePermit, releaseOnePermit},
}

func acquireOnePermit(r Room, c *Call, requests []lockagent.AcquireRequest, past Past) {
	requests[0].Permits = 1
	r.AcquirePermits(c, &requests[0], past)
}

func releaseOnePermit(r Room, c *Call, requests []ReleaseRequest, past Past) {
	r.ReleasePermits(c, &requests[0], past)
}

// An agent may listen where messages arrive, and the server that has the lock does not count it: at a replica, or at
// another node of a Cluster. Nobody grants the tenure of such an agent: it would believe the message, and the lock
// would go to somebody else.
func TestWhoIsNotCountedIsPassedNothing(t *testing.T) {
	t.Parallel()
	for room, begin := range map[Room]func(*testing.T) (at, elsewhere *redistest.Server){
		Single: func(t *testing.T) (at, elsewhere *redistest.Server) {
			at = redistest.Start(t)
			elsewhere = redistest.Start(t, redistest.WithConfig("replicaof 127.0.0.1 "+strconv.Itoa(at.Port())))
			waittest.Until(t, "the replica to follow", func() bool {
				return elsewhere.Info("replication", "master_link_status") == "up"
			})
			at.AwaitReplica()
			return at, elsewhere
		},
		Sharded: func(t *testing.T) (at, elsewhere *redistest.Server) {
			cluster := redistest.StartCluster(t, 1)
			return cluster.Nodes[0], cluster.AddReplica(t, cluster.Nodes[0])
		},
	} {
		t.Run(room.String(), func(t *testing.T) {
			t.Parallel()
			at, elsewhere := begin(t)
			s := &server{Server: at, t: t, conn: at.Dial(), room: room}
			far := (&server{Server: elsewhere, t: t, room: room}).listen(s.agentChannel(agentB, "orders"))
			for _, q := range queues {
				s.passOn(q.acquire, q.release, q.kind, q.mode, false)
				s.tell(room == Sharded, s.agentChannel(agentB, "orders"), q.what)
				if heard := s.hear(far); heard != q.what {
					t.Errorf("%s: an agent that is not counted heard %q", q.what, heard)
				}
			}
		})
	}
}

// agentChannel is where an agent hears what is for it alone about a lock.
func (s *server) agentChannel(agent lockagent.AgentID, name lockagent.Name) string {
	if s.room == Single {
		return AgentChannel(agent)
	}
	return AgentChannelOf(agent, name)
}

// tell publishes on a channel.
func (s *server) tell(sharded bool, channel, payload string) {
	how := "PUBLISH"
	if sharded {
		how = "SPUBLISH"
	}
	s.do(how, channel, payload)
}

// passOn has agent A release the lock orders while agent B has a place, and expects that B is passed the lock, or that
// nobody has it.
func (s *server) passOn(
	acquire func(Room, *Call, []lockagent.AcquireRequest, Past), release func(Room, *Call, []ReleaseRequest, Past),
	kind lockagent.LockKind, mode lockagent.Mode, passed bool,
) {
	s.t.Helper()
	s.do("FLUSHALL")
	s.past = Past{}
	if kind == lockagent.Semaphore || kind == lockagent.Permits {
		s.do("SET", "orders", "1")
	}
	one, two := wish("orders", agentA, 1), queueing("orders", agentB, 1)
	one.Kind, two.Kind, two.Mode = kind, kind, mode
	for _, req := range []lockagent.AcquireRequest{one, two} {
		acquire(s.room, &s.call, []lockagent.AcquireRequest{req}, s.past)
		if o := s.acquired(1)[0]; o.Err != nil || o.Reply.Granted == req.Queue || o.Reply.Queued != req.Queue {
			s.t.Fatalf("%s: %+v", kind, o)
		}
	}
	ended := end(one)
	ended.Kind = kind
	release(s.room, &s.call, []ReleaseRequest{ended}, s.past)
	if o := s.released(1)[0]; o.Err != nil || o.Reply.Passed != passed {
		s.t.Errorf("%s: released %+v, want it passed: %v", kind, o, passed)
	}
	if passed {
		return
	}
	if kind == lockagent.Semaphore || kind == lockagent.Permits {
		if free := s.do("GET", "orders"); free != "1" {
			s.t.Errorf("%s: %v permits are free, want 1", kind, free)
		}
	} else if s.do("EXISTS", "orders") != int64(0) {
		s.t.Errorf("%s: somebody has the lock", kind)
	}
}

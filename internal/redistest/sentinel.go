package redistest

import (
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/lockagent/lockagent/internal/waittest"
)

// MasterSet is the name under which [StartSentinel] has the master watched.
const MasterSet = "lockagent"

// Sentinel is a master with one replica, and the Sentinels that watch them.
type Sentinel struct {
	// A is the master at first, and B its replica. A failover makes B the master.
	A, B *Server
	// Watchers are the Sentinels themselves, and Watcher is the first of them.
	Watchers []*Server
	Watcher  *Server

	t testing.TB
}

// StartSentinel starts a master, a replica and a Sentinel, and returns when the
// Sentinel could do a failover. The options are for master and replica.
func StartSentinel(t testing.TB, opts ...Option) *Sentinel {
	t.Helper()
	return StartSentinels(t, 1, 5*time.Second, opts...)
}

// StartSentinels is StartSentinel with n Sentinels, of which most have to agree. They give
// the master up after it has not answered for a time.
func StartSentinels(t testing.TB, n int, down time.Duration, opts ...Option) *Sentinel {
	t.Helper()
	s := &Sentinel{t: t}
	s.A = Start(t, opts...)
	s.B = Start(t, append(opts, WithConfig("replicaof 127.0.0.1 "+strconv.Itoa(s.A.PeerPort())))...)
	waittest.Until(t, "the replica to follow", func() bool {
		return s.B.info("replication", "master_link_status") == "up"
	})
	s.A.AwaitReplica()
	for range n {
		s.Watchers = append(s.Watchers, Start(t, func(w *Server) {
			w.certs, w.config.TLS = s.A.certs, s.A.config.TLS
			w.config.Args = []string{"--sentinel"}
			w.config.Lines = []string{
				"sentinel monitor " + MasterSet + " 127.0.0.1 " + strconv.Itoa(s.A.PeerPort()) + " " + strconv.Itoa(n/2+1),
				"sentinel down-after-milliseconds " + MasterSet + " " + strconv.FormatInt(down.Milliseconds(), 10),
				"sentinel failover-timeout " + MasterSet + " 3000",
			}
		}))
	}
	s.Watcher = s.Watchers[0]
	for _, w := range s.Watchers {
		waittest.Until(t, "the Sentinels to know the replica, and each other", func() bool {
			others, _ := w.Server.Do("SENTINEL", "SENTINELS", MasterSet)
			list, _ := others.([]any)
			return len(list) == n-1 && knowsReplica(w)
		})
	}
	return s
}

func knowsReplica(w *Server) bool {
	reply, _ := w.Server.Do("SENTINEL", "REPLICAS", MasterSet)
	replicas, _ := reply.([]any)
	for _, r := range replicas {
		if f := fields(r); f["master-link-status"] == "ok" && f["role-reported"] == "slave" {
			return true
		}
	}
	return false
}

// URL names the Sentinels and the set that they watch.
func (s *Sentinel) URL() string {
	return urlOf("redis", (*Server).Addr, s.Watchers, url.Values{"master_set": {MasterSet}})
}

// Failover makes the replica B the master, as if by hand, and returns when the
// Sentinel says that it is. A does not know yet: the Sentinel tells it some
// seconds later.
func (s *Sentinel) Failover() {
	s.t.Helper()
	s.Watcher.Do("SENTINEL", "FAILOVER", MasterSet)
	s.AwaitMaster(s.B)
}

// AwaitMaster waits until the last Sentinel says that a server is the master, and the
// server says so too.
func (s *Sentinel) AwaitMaster(server *Server) {
	s.t.Helper()
	last := s.Watchers[len(s.Watchers)-1]
	waittest.Until(s.t, "the failover", func() bool {
		reply, _ := last.Server.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterSet)
		addr, _ := reply.([]any)
		return len(addr) == 2 &&
			addr[1].(string) == strconv.Itoa(server.PeerPort()) &&
			server.info("replication", "role") == "master"
	})
}

// fields makes a map of a reply that lists names and values in turn.
func fields(reply any) map[string]string {
	list, _ := reply.([]any)
	m := make(map[string]string, len(list)/2)
	for i := 0; i+1 < len(list); i += 2 {
		name, _ := list[i].(string)
		value, _ := list[i+1].(string)
		m[name] = value
	}
	return m
}

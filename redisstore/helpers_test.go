package redisstore_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/redisstore"
	"github.com/lockagent/lockagent/storetest"
)

const (
	agentA lockagent.AgentID = "aaaaaaaa-aaaa-8aaa-8aaa-aaaaaaaaaaaa"
	agentB lockagent.AgentID = "bbbbbbbb-bbbb-8bbb-8bbb-bbbbbbbbbbbb"
)

func wish(name lockagent.Name, agent lockagent.AgentID, number uint64) lockagent.AcquireRequest {
	return lockagent.AcquireRequest{
		Name: name, Tenure: lockagent.Tenure{Agent: agent, Number: number}, Lease: 30 * time.Second,
	}
}

// end is the release of what was wished for.
func end(req lockagent.AcquireRequest) lockagent.ReleaseRequest {
	return lockagent.ReleaseRequest{Name: req.Name, Tenure: req.Tenure}
}

func acquire(t *testing.T, s *redisstore.Store, req lockagent.AcquireRequest) lockagent.AcquireReply {
	t.Helper()
	reply, err := storetest.Acquire(t, s, req)
	if err != nil || !reply.Granted {
		t.Fatalf("Acquire(%q) = %+v, %v; want it granted", req.Name, reply, err)
	}
	return reply
}

func release(t *testing.T, s *redisstore.Store, req lockagent.AcquireRequest) lockagent.ReleaseReply {
	t.Helper()
	reply, err := storetest.Release(t, s, end(req))
	if err != nil || !reply.Released {
		t.Fatalf("Release(%q) = %+v, %v; want it released", req.Name, reply, err)
	}
	return reply
}

// queue asks for a lock that is held, and gets a place.
func queue(t *testing.T, s *redisstore.Store, req lockagent.AcquireRequest) lockagent.AcquireReply {
	t.Helper()
	req.Queue = true
	reply, err := storetest.Acquire(t, s, req)
	if err != nil || reply.Granted || !reply.Queued {
		t.Fatalf("Acquire(%q) = %+v, %v; want it queued", req.Name, reply, err)
	}
	return reply
}

// keys are all keys of a server.
func keys(server *redistest.Server) []string {
	var keys []string
	for _, key := range server.Do("KEYS", "*").([]any) {
		keys = append(keys, key.(string))
	}
	slices.Sort(keys)
	return keys
}

func sorted(list ...string) []string {
	slices.Sort(list)
	return list
}

// commands records what clients send to a server.
type commands struct {
	server *redistest.Server
	conn   *redistest.Conn
}

func record(t *testing.T, server *redistest.Server) *commands {
	t.Helper()
	c := &commands{server: server, conn: server.Dial()}
	if _, err := c.conn.Do("MONITOR"); err != nil {
		t.Fatal(err)
	}
	return c
}

// lines returns what was sent since the last time, without what scripts ran.
func (c *commands) lines(t *testing.T) []string {
	t.Helper()
	const end = `"ECHO" "end"`
	c.server.Do("ECHO", "end")
	var sent []string
	for {
		line, err := c.conn.Receive() // time [database address] "command" "argument" ...
		if err != nil {
			t.Fatal(err)
		}
		_, origin, _ := strings.Cut(line.(string), " [")
		origin, command, _ := strings.Cut(origin, "] ")
		switch {
		case command == end:
			return sent
		case !strings.HasSuffix(origin, " lua"):
			sent = append(sent, command)
		}
	}
}

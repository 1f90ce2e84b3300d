package script

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/redistest"
)

const (
	agentA lockagent.AgentID = "aaaaaaaa-aaaa-8aaa-8aaa-aaaaaaaaaaaa"
	agentB lockagent.AgentID = "bbbbbbbb-bbbb-8bbb-8bbb-bbbbbbbbbbbb"
	agentC lockagent.AgentID = "cccccccc-cccc-8ccc-8ccc-cccccccccccc"
)

// server is one that scripts run on.
type server struct {
	*redistest.Server
	t    testing.TB
	conn *redistest.Conn
	room Room
	past Past
	call Call
}

// start is for tests that do not configure their server.
func start(t testing.TB) *server { return on(t, redistest.Borrow(t)) }

// startOwn is for the others.
func startOwn(t testing.TB) *server { return on(t, redistest.Start(t)) }

func on(t testing.TB, s *redistest.Server) *server {
	return &server{Server: s, t: t, conn: s.Dial(), room: Single}
}

// run runs a call, and returns the text of the reply or of the error. It looks at a database that has no name first, as
// a store does: without a grace period.
func (s *server) run(c *Call, before ...string) (string, error) {
	s.t.Helper()
	reply, err := s.send(c, before...)
	if err != nil && strings.HasPrefix(err.Error(), "LOOK ") && c.Script != incarnationScript {
		var look Call
		Incarnation(&look, Look{Whole: true})
		s.must(&look)
		s.Do("DEL", sinceKey) // no lock minds it
		reply, err = s.send(c, before...)
	}
	return reply, err
}

// send is run as it is.
func (s *server) send(c *Call, before ...string) (string, error) {
	s.t.Helper()
	tail := append([]string{strconv.Itoa(len(c.Keys))}, append(c.Keys, c.Args...)...)
	eval := func(how, what string) (any, error) {
		if len(before) > 0 {
			if _, err := s.conn.Do(before...); err != nil {
				s.t.Fatal(err)
			}
		}
		return s.conn.Do(append([]string{how, what}, tail...)...)
	}
	reply, err := eval("EVALSHA", c.Script.Digest)
	if err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") {
		reply, err = eval("EVAL", c.Script.Source)
	}
	if refusal := redistest.Error(""); err != nil && !errors.As(err, &refusal) {
		s.t.Fatal(err)
	}
	return fmt.Sprint(reply), err
}

// must is run for calls that succeed.
func (s *server) must(c *Call) string {
	s.t.Helper()
	reply, err := s.run(c)
	if err != nil {
		s.t.Fatalf("%q %q: %v", c.Keys, c.Args, err)
	}
	return reply
}

func tenure(agent lockagent.AgentID, number uint64) lockagent.Tenure {
	return lockagent.Tenure{Agent: agent, Number: number}
}

// wish is a request for half a minute.
func wish(name lockagent.Name, agent lockagent.AgentID, number uint64) lockagent.AcquireRequest {
	return lockagent.AcquireRequest{Name: name, Tenure: tenure(agent, number), Lease: 30 * time.Second}
}

// queueing is a wish that asks for a place.
func queueing(name lockagent.Name, agent lockagent.AgentID, number uint64) lockagent.AcquireRequest {
	req := wish(name, agent, number)
	req.Queue = true
	return req
}

// end is the release of a wish.
func end(req lockagent.AcquireRequest) ReleaseRequest {
	return ReleaseRequest{ReleaseRequest: lockagent.ReleaseRequest{Name: req.Name, Tenure: req.Tenure}}
}

func (s *server) acquireAll(requests ...lockagent.AcquireRequest) []Outcome[lockagent.AcquireReply] {
	s.t.Helper()
	s.room.Acquire(&s.call, requests, s.past)
	outcomes := make([]Outcome[lockagent.AcquireReply], len(requests))
	if err := s.room.ReadAcquired(s.must(&s.call), s.past, outcomes); err != nil {
		s.t.Fatal(err)
	}
	for _, o := range outcomes {
		if o.Err == nil {
			s.past.Note(o.Reply.At, o.Reply.Token)
			s.past.Incarnation = o.Reply.Incarnation
		}
	}
	return outcomes
}

func (s *server) acquire(req lockagent.AcquireRequest) lockagent.AcquireReply {
	s.t.Helper()
	o := s.acquireAll(req)[0]
	if o.Err != nil {
		s.t.Fatal(o.Err)
	}
	return o.Reply
}

// grant is acquire for a lock that is free.
func (s *server) grant(req lockagent.AcquireRequest) lockagent.AcquireReply {
	s.t.Helper()
	r := s.acquire(req)
	if !r.Granted {
		s.t.Fatalf("%q was not granted: %+v", req.Name, r)
	}
	return r
}

func (s *server) releaseAll(requests ...ReleaseRequest) []Outcome[lockagent.ReleaseReply] {
	s.t.Helper()
	s.room.Release(&s.call, requests, s.past)
	return s.released(len(requests))
}

func (s *server) released(n int) []Outcome[lockagent.ReleaseReply] {
	s.t.Helper()
	outcomes := make([]Outcome[lockagent.ReleaseReply], n)
	if err := s.room.ReadReleased(s.must(&s.call), s.past, outcomes); err != nil {
		s.t.Fatal(err)
	}
	return outcomes
}

func (s *server) release(req ReleaseRequest) lockagent.ReleaseReply {
	s.t.Helper()
	o := s.releaseAll(req)[0]
	if o.Err != nil {
		s.t.Fatal(o.Err)
	}
	return o.Reply
}

// listen subscribes to channels on a connection of its own.
func (s *server) listen(channels ...string) *redistest.Conn {
	s.t.Helper()
	conn := s.Dial()
	how := "SUBSCRIBE"
	if s.room == Sharded {
		redistest.NeedsSharded(s.t)
		how = "SSUBSCRIBE"
	}
	for _, channel := range channels {
		if _, err := conn.Do(how, channel); err != nil {
			s.t.Fatal(err)
		}
	}
	return conn
}

// waits subscribes as an agent does that waits for a lock.
func (s *server) waits(agent lockagent.AgentID, name lockagent.Name) *redistest.Conn {
	s.t.Helper()
	own := AgentChannel(agent)
	if s.room == Sharded {
		own = AgentChannelOf(agent, name)
	}
	return s.listen(own, Channel(name), AgentsChannel(name))
}

// hear returns the payload of the next message.
func (s *server) hear(conn *redistest.Conn) string {
	s.t.Helper()
	m, err := conn.Receive()
	if err != nil {
		s.t.Fatal(err)
	}
	return m.([]any)[2].(string)
}

// message is hear for the messages to agents.
func (s *server) message(conn *redistest.Conn) lockagent.Message {
	s.t.Helper()
	m, err := ReadMessage(s.hear(conn))
	if err != nil {
		s.t.Fatal(err)
	}
	return m
}

func (s *server) renewAll(requests ...lockagent.RenewRequest) []Outcome[lockagent.RenewReply] {
	s.t.Helper()
	s.room.Renew(&s.call, requests)
	outcomes := make([]Outcome[lockagent.RenewReply], len(requests))
	if err := ReadRenewed(s.must(&s.call), s.past, outcomes); err != nil {
		s.t.Fatal(err)
	}
	return outcomes
}

func (s *server) renew(req lockagent.RenewRequest) lockagent.RenewReply {
	s.t.Helper()
	o := s.renewAll(req)[0]
	if o.Err != nil {
		s.t.Fatal(o.Err)
	}
	return o.Reply
}

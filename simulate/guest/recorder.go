package main

import (
	"bufio"
	"bytes"
	"slices"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/lockagent/lockagent/simulate/plan"
)

// recorder tells of each script that a server runs, so that another server can run the same.
type recorder struct {
	world *world
	told  map[string]bool // the scripts whose source was told, by their digests

	mu      sync.Mutex // held while a script runs
	running *plan.Command
	passes  *server.Peer // whose command goes on to the server
}

// beyond are the commands in scripts whose answers depend on more than the data.
var beyond = []string{"INFO", "PUBLISH", "SPUBLISH", "PUBSUB", "CLUSTER"}

// takes carries out a command that is to be told of, and reports whether the command was one.
func (r *redis) takes(c *server.Peer, command string, args []string) bool {
	switch s := r.records; {
	case s == nil:
		return false
	case c == s.passes:
		s.passes = nil
		return false
	case command == "EVAL" || command == "EVALSHA":
		r.record(c, command, args)
		return true
	case s.running != nil && slices.Contains(beyond, command):
		r.asked(c, append([]string{command}, args...))
		return true
	}
	return false
}

// does has the server carry out a command, and returns the answer.
func (r *redis) does(c *server.Peer, words []string) []byte {
	var answer bytes.Buffer
	w := bufio.NewWriter(&answer)
	within := server.NewPeer(w)
	within.Ctx = c.Ctx
	r.records.passes = within
	r.mini.Server().Dispatch(within, words)
	_ = w.Flush()
	return answer.Bytes()
}

// record carries out a script, tells of it, and answers the client.
func (r *redis) record(c *server.Peer, command string, args []string) {
	s := r.records
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = &plan.Command{Digest: args[0]}
	if command == "EVAL" {
		s.running.Digest = digestOf(args[0])
		if !s.told[s.running.Digest] {
			s.told[s.running.Digest], s.running.Source = true, args[0]
		}
	}
	for _, arg := range args[1:] {
		s.running.Args = append(s.running.Args, []byte(arg))
	}
	s.running.Answer = r.does(c, append([]string{command}, args...))
	if s.told[s.running.Digest] { // or the server did not know it
		s.world.tellJSON('C', s.running)
	}
	c.WriteRaw(string(s.running.Answer))
	s.running = nil
}

// asked carries out a command of the script that runs.
func (r *redis) asked(c *server.Peer, words []string) {
	answer := r.does(c, words)
	asked := plan.Asked{Command: []byte(strings.Join(words, " ")), Answer: answer}
	r.records.running.Asked = append(r.records.running.Asked, asked)
	c.WriteRaw(string(answer))
}

// flush makes the server forget everything.
func (r *redis) flush() {
	if r.records != nil {
		r.records.world.tellJSON('C', plan.Command{At: r.clock.now().UnixMicro()})
	}
	r.mini.FlushAll()
}

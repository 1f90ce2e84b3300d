package redistest

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// idle are the servers that wait for the next who borrows one.
var idle struct {
	mu      sync.Mutex
	servers []*Server // guarded by mu
}

// Borrow is [Start] for a test that neither stops nor configures its server: no test can tell that others had the
// server before. The package needs [M].
func Borrow(t testing.TB) *Server {
	t.Helper()
	s := borrowed()
	if s == nil {
		s = begin(t)
	}
	s.t = t
	began := s.settings()
	t.Cleanup(func() {
		if t.Failed() {
			s.end(t)
			return
		}
		// The connections that the test has closed are gone, too, before the next test counts who listens.
		for _, command := range [][]string{
			{"CLIENT", "KILL", "TYPE", "normal"},
			{"CLIENT", "KILL", "TYPE", "pubsub"},
			{"FLUSHALL"},
			{"SCRIPT", "FLUSH"},
			{"CONFIG", "RESETSTAT"},
		} {
			s.Do(command...)
		}
		if s.settings() != began {
			t.Error("redistest: a server that was borrowed is left with another configuration, or other users; use Start")
			s.end(t)
			return
		}
		idle.mu.Lock()
		defer idle.mu.Unlock()
		idle.servers = append(idle.servers, s)
	})
	return s
}

// settings are the configuration of a server and its users.
func (s *Server) settings() string {
	s.t.Helper()
	return fmt.Sprint(s.Do("CONFIG", "GET", "*"), s.Do("ACL", "LIST"))
}

func borrowed() *Server {
	idle.mu.Lock()
	defer idle.mu.Unlock()
	if len(idle.servers) == 0 {
		return nil
	}
	last := len(idle.servers) - 1
	s := *idle.servers[last] // its own, because each belongs to a test
	idle.servers = idle.servers[:last]
	return &s
}

// M runs the tests of a package as a [testing.M] does, and then ends the servers that they have borrowed.
type M struct{ *testing.M }

// Run runs the tests, and returns the code to exit with.
func (m M) Run() int {
	code := m.M.Run()
	for s := borrowed(); s != nil; s = borrowed() {
		s.Kill()
		if err := os.RemoveAll(s.dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}

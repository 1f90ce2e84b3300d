package demo

import (
	"errors"
	"net"
	"net/rpc"
	"os"
	"path/filepath"
	"sync"

	"github.com/lockagent/lockagent"
)

// hub is where the agents that are processes of their own meet the one process
// that has the resource. They call it by net/rpc over a Unix socket in a directory
// that only this user can enter.
type hub struct {
	resource *resource
	dir      string
	listener net.Listener
	over     chan struct{} // closed, under mu, when the hub is
	serving  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{} // guarded by mu
	seats []*seat               // each is guarded by mu where it says so
}

// seat is the place of one process at the hub.
type seat struct {
	ready chan lockagent.AgentID // capacity 1: the process could begin
	begin chan struct{}          // closed when it may
	last  Stats                  // guarded by hub.mu; what it reported last
}

func openHub(resource *resource, seats int) (*hub, error) {
	dir, err := os.MkdirTemp("", "lockagent-demo-")
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", filepath.Join(dir, "hub"))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	h := &hub{resource: resource, dir: dir, listener: listener, over: make(chan struct{}), conns: make(map[net.Conn]struct{})}
	for range seats {
		h.seats = append(h.seats, &seat{ready: make(chan lockagent.AgentID, 1), begin: make(chan struct{})})
	}
	server := rpc.NewServer()
	if err := server.RegisterName(serviceName, &service{h}); err != nil {
		return nil, errors.Join(err, h.close())
	}
	h.serving.Go(func() { h.accept(server) })
	return h, nil
}

func (h *hub) address() string { return h.listener.Addr().String() }

func (h *hub) accept(server *rpc.Server) {
	for {
		conn, err := h.listener.Accept()
		if err != nil {
			return // closed
		}
		if !h.admit(conn) {
			_ = conn.Close() // nobody has used it
			return
		}
		h.serving.Go(func() {
			server.ServeConn(conn)
			h.mu.Lock()
			delete(h.conns, conn)
			h.mu.Unlock()
		})
	}
}

// admit reports whether a conversation came before the end.
func (h *hub) admit(conn net.Conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.over:
		return false
	default:
		h.conns[conn] = struct{}{}
		return true
	}
}

// close ends all conversations and returns when nobody is served any more.
func (h *hub) close() error {
	err := h.listener.Close()
	h.mu.Lock()
	close(h.over)
	for conn := range h.conns {
		_ = conn.Close() // the other side may have been faster
	}
	h.mu.Unlock()
	h.serving.Wait()
	return errors.Join(err, os.RemoveAll(h.dir))
}

func (h *hub) stats(index int) Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seats[index].last
}

const serviceName = "Demo"

// service is what the processes may call.
type service struct{ hub *hub }

// The arguments and results of the calls.
type (
	// Hello says that a process could begin.
	Hello struct {
		Index int
		Agent lockagent.AgentID
	}
	// Operation is a read or a write of a counter.
	Operation struct {
		Lock  lockagent.Name
		Token lockagent.Token
		Value int64 // to be written
	}
	// Outcome is what became of it.
	Outcome struct {
		Value int64 // that was read
		Stale bool
	}
	// News is what a process has done so far.
	News struct {
		Index int
		Stats Stats
	}
)

// Ready returns when the process may begin.
func (s *service) Ready(h Hello, _ *bool) error {
	seat := s.hub.seats[h.Index]
	select {
	case seat.ready <- h.Agent:
	default:
		return errors.New("demo: the seat is taken")
	}
	select {
	case <-seat.begin:
		return nil
	case <-s.hub.over:
		return errors.New("demo: it is over")
	}
}

// Read reads a counter.
func (s *service) Read(op Operation, out *Outcome) (err error) {
	out.Value, err = s.hub.resource.read(op.Lock, op.Token)
	return out.carry(err)
}

// Write writes a counter.
func (s *service) Write(op Operation, out *Outcome) error {
	return out.carry(s.hub.resource.write(op.Lock, op.Token, op.Value))
}

// carry has an answer of the resource travel as a result. Errors arrive as texts.
func (o *Outcome) carry(err error) error {
	o.Stale = errors.Is(err, errStale)
	if o.Stale {
		return nil
	}
	return err
}

// Report takes the news of a process.
func (s *service) Report(n News, _ *bool) error {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.hub.seats[n.Index].last = n.Stats
	return nil
}

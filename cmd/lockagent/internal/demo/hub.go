package demo

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"github.com/lockagent/lockagent"
)

// hub is where the agents that are processes of their own meet the one process that has the resource. They call it by
// HTTP, with JSON, over a Unix socket in a directory that only this user can enter.
type hub struct {
	resource *resource
	dir      string
	path     string // of the socket
	server   http.Server
	serving  sync.WaitGroup

	mu    sync.Mutex
	seats []*seat // each is guarded by mu where it says so
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
	h := &hub{resource: resource, dir: dir, path: filepath.Join(dir, "hub")}
	listener, err := net.Listen("unix", h.path)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	for range seats {
		h.seats = append(h.seats, &seat{ready: make(chan lockagent.AgentID, 1), begin: make(chan struct{})})
	}
	mux := http.NewServeMux()
	answer(mux, "ready", h.ready)
	answer(mux, "read", h.read)
	answer(mux, "write", h.write)
	answer(mux, "report", h.report)
	h.server.Handler = mux
	h.serving.Go(func() { _ = h.server.Serve(listener) }) // until it is closed
	return h, nil
}

// close ends all conversations.
func (h *hub) close() error {
	err := h.server.Close()
	h.serving.Wait()
	return errors.Join(err, os.RemoveAll(h.dir))
}

func (h *hub) stats(index int) Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seats[index].last
}

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

// answer has the handler answer calls of the name.
func answer[A, R any](mux *http.ServeMux, name string, handle func(*http.Request, A) (R, error)) {
	mux.HandleFunc("POST /"+name, func(w http.ResponseWriter, r *http.Request) {
		var args A
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		result, err := handle(r, args)
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		_ = json.NewEncoder(w).Encode(result) // the process may have gone
	})
}

// ready returns when the process may begin.
func (h *hub) ready(r *http.Request, hello Hello) (struct{}, error) {
	seat := h.seats[hello.Index]
	select {
	case seat.ready <- hello.Agent:
	default:
		return struct{}{}, errors.New("demo: the seat is taken")
	}
	select {
	case <-seat.begin:
		return struct{}{}, nil
	case <-r.Context().Done():
		return struct{}{}, errors.New("demo: it is over")
	}
}

// read reads a counter.
func (h *hub) read(_ *http.Request, op Operation) (Outcome, error) {
	value, err := h.resource.read(op.Lock, op.Token)
	return outcomeOf(value, err)
}

// write writes a counter.
func (h *hub) write(_ *http.Request, op Operation) (Outcome, error) {
	return outcomeOf(0, h.resource.write(op.Lock, op.Token, op.Value))
}

// outcomeOf has an answer of the resource travel as a result. Other errors arrive as texts.
func outcomeOf(value int64, err error) (Outcome, error) {
	if errors.Is(err, errStale) {
		return Outcome{Value: value, Stale: true}, nil
	}
	return Outcome{Value: value}, err
}

// report takes the news of a process.
func (h *hub) report(_ *http.Request, n News) (struct{}, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seats[n.Index].last = n.Stats
	return struct{}{}, nil
}

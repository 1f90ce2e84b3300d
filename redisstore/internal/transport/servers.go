package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/hashslot"
)

const (
	// topologyInterval is about how often Sentinels or nodes are asked who serves what, even
	// if nothing tells of a change: an announcement may be missed.
	topologyInterval = 2 * time.Second

	// drained is how long a node of a Cluster that has lost its slots may go on with the
	// exchange that is under way.
	drained = 100 * time.Millisecond
)

// Config says which servers there are, and how to get in. All fields count but those that
// say otherwise.
type Config struct {
	Network string   // "tcp" or "unix"
	Addrs   []string // of servers, or of Sentinels
	// MasterSet is what the Sentinels call the master. It is empty if Addrs are no Sentinels.
	MasterSet string

	User, Password                 string      // may be empty
	SentinelUser, SentinelPassword string      // may be empty
	Database                       int         // 0 in a Cluster
	TLS                            *tls.Config // nil for none
	ClientName                     string

	// Probe are two keys in different slots that the user may read. They tell whether keys
	// have to be in one slot although there is no Cluster.
	Probe [2]string

	Dial    time.Duration // bounds the making of a connection
	Call    time.Duration // bounds a call, from when a lane was given it
	Silence time.Duration // after which a connection is cut on which an answer is due

	// Changed is called when a connection was made or lost, or another server serves now.
	// It must not block.
	Changed func()
}

// Servers are the servers behind some addresses. [Connect] makes them; the zero Servers
// are of no use.
type Servers struct {
	config  Config
	slotted bool // the keys of a call have to be in one slot
	cluster bool
	about   Greeting
	life    context.Context // done when they are closed
	end     context.CancelFunc
	runs    sync.WaitGroup // all goroutines

	table  atomic.Pointer[table] // replaced under mu, by one whose nodes are among nodes
	doubts []chan struct{}       // each of capacity 1: there is reason to ask who serves what

	mu       sync.Mutex       // guards what follows
	nodes    map[string]*Node // by address
	onRetire []func(*Node)
	onClose  []func()
	closed   bool

	asking sync.Mutex // held while a Cluster is asked for its slots; guards asked
	asked  time.Time  // when it was last answered

	sentinels sentinels
}

// Greeting is what a server says of itself.
type Greeting struct {
	Version string
	Mode    string // "standalone", "cluster" or "sentinel"
}

// table says which node serves which slot. It does not change: another one takes its
// place.
type table struct {
	only  *Node // serves all slots, if it is not nil
	slots [hashslot.Count]*Node
}

func (t *table) node(slot uint16) *Node {
	if t.only != nil {
		return t.only
	}
	return t.slots[slot]
}

// serves reports whether a node serves any slot.
func (t *table) serves(n *Node) bool { return t.only == n || slices.Contains(t.slots[:], n) }

// Connect connects to servers and finds out what they are. ctx bounds Connect, not the
// Servers. The error is in the server's words. [Error] puts it into those of the
// lockagent package.
func Connect(ctx context.Context, config Config) (*Servers, error) {
	s := &Servers{config: config, nodes: make(map[string]*Node)}
	s.life, s.end = context.WithCancel(context.Background())
	s.table.Store(new(table))
	inTime := context.AfterFunc(ctx, s.end) // not all that follows takes a context
	err := s.meet(ctx)
	if err == nil && !inTime() {
		err = context.Cause(ctx)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// meet finds out what is there, and has it followed.
func (s *Servers) meet(ctx context.Context) error {
	if s.config.MasterSet != "" {
		if err := s.followSentinels(ctx); err != nil {
			return err
		}
		only := s.table.Load().only
		greeting, err := only.greet(ctx)
		if err != nil {
			return err
		}
		s.about, s.slotted = greeting, only.isSlotted(ctx, s.config.Probe)
		return nil
	}
	first, greeting, err := s.meetAny(ctx)
	if err != nil {
		return err
	}
	s.about = greeting
	if greeting.Mode == "cluster" {
		return s.followCluster(ctx)
	}
	s.serve(first)
	s.slotted = first.isSlotted(ctx, s.config.Probe)
	return nil
}

// meetAny asks all addresses at once, and takes the first who answers: others may be down.
func (s *Servers) meetAny(ctx context.Context) (*Node, Greeting, error) {
	type answer struct {
		node     *Node
		greeting Greeting
		err      error
	}
	answers := make(chan answer, len(s.config.Addrs))
	for _, addr := range s.config.Addrs {
		node := s.nodeAt(addr)
		s.runs.Go(func() {
			greeting, err := node.greet(ctx)
			answers <- answer{node, greeting, err}
		})
	}
	var failed error
	for range s.config.Addrs {
		a := <-answers
		if a.err == nil {
			return a.node, a.greeting, nil
		}
		if failed == nil {
			failed = a.err
		}
	}
	return nil, Greeting{}, failed
}

// greet asks a node what it is.
func (n *Node) greet(ctx context.Context) (Greeting, error) {
	hello, err := n.client.Do(ctx, n.client.B().Arbitrary("HELLO", "3").Build()).AsStrMap()
	if err != nil && strings.Contains(err.Error(), "unknown command") {
		return Greeting{Version: "5 or less"}, nil
	}
	return Greeting{Version: hello["version"], Mode: hello["mode"]}, err
}

// isSlotted reports whether a node refuses a call with keys in different slots, as services
// do that share the keys out among servers behind one address.
func (n *Node) isSlotted(ctx context.Context, keys [2]string) bool {
	err := n.client.Do(ctx, n.client.B().Eval().Script("return 0").Numkeys(2).Key(keys[:]...).Build()).Error()
	answer, of := rueidis.IsRedisErr(err)
	return of && strings.HasPrefix(answer.Error(), "CROSSSLOT")
}

// serve has one node serve all slots.
func (s *Servers) serve(n *Node) {
	s.mu.Lock()
	old := s.table.Swap(&table{only: n})
	s.mu.Unlock()
	if old.only != nil && old.only != n {
		s.retire(old.only)
	}
	s.config.Changed()
}

// Greeting is what a server said of itself when it was first met.
func (s *Servers) Greeting() Greeting { return s.about }

// Cluster reports whether they are a Cluster.
func (s *Servers) Cluster() bool { return s.cluster }

// Watched reports whether Sentinels choose the server.
func (s *Servers) Watched() bool { return s.config.MasterSet != "" }

// Slotted reports whether the keys of a call have to be in one slot. It is true for every
// Cluster, and for services that are several servers behind one address.
func (s *Servers) Slotted() bool { return s.slotted }

// Masters are the nodes that serve slots now.
func (s *Servers) Masters() []*Node {
	t := s.table.Load()
	if t.only != nil {
		return []*Node{t.only}
	}
	var masters []*Node
	var last *Node
	for _, n := range t.slots {
		if n != nil && n != last && !slices.Contains(masters, n) {
			masters = append(masters, n)
		}
		last = n
	}
	return masters
}

// Master is the node that serves a slot. It is nil if none is known.
func (s *Servers) Master(slot uint16) *Node { return s.table.Load().node(slot) }

// nodeAt returns the node with an address, which may be new.
func (s *Servers) nodeAt(addr string) *Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.node(addr)
}

// node is nodeAt. It expects mu to be held.
func (s *Servers) node(addr string) *Node {
	n := s.nodes[addr]
	if n == nil {
		n = s.newNode(addr, s.config.options(), s.config.Changed)
		if s.closed {
			n.end()
			return n
		}
		s.nodes[addr] = n
	}
	return n
}

// retire gives up a node, unless the table has it serve again. What waits for it goes elsewhere.
func (s *Servers) retire(n *Node) {
	s.mu.Lock()
	if s.table.Load().serves(n) {
		s.mu.Unlock()
		return
	}
	if s.nodes[n.addr] == n {
		delete(s.nodes, n.addr)
	}
	hooks := slices.Clone(s.onRetire)
	s.mu.Unlock()
	n.end()
	for _, hook := range hooks {
		hook(n)
	}
	s.runs.Go(n.close)
}

// Doubt has it asked soon who serves what.
func (s *Servers) Doubt() {
	for _, doubt := range s.doubts {
		signal(doubt)
	}
}

// Close gives up all connections, and returns when the last goroutine has ended. Calls
// under way are answered with [lockagent.ErrClosed]. It may be called again.
func (s *Servers) Close() {
	s.end()
	s.mu.Lock()
	s.closed = true
	hooks := s.onClose
	s.onClose = nil
	s.mu.Unlock()
	for _, hook := range hooks {
		hook()
	}
	s.runs.Wait()
	s.mu.Lock()
	nodes := s.nodes
	s.nodes = nil
	s.mu.Unlock()
	for _, n := range nodes {
		n.close()
	}
}

// register has functions called when a node is retired, and when the servers are closed.
func (s *Servers) register(retired func(*Node), closed func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if retired != nil {
		s.onRetire = append(s.onRetire, retired)
	}
	s.onClose = append(s.onClose, closed)
}

// errRetired is the error of a call to a server that turned out not to serve any more.
var errRetired = errors.New("another server serves now")

// failure is what an error of an exchange with a node means.
func (s *Servers) failure(n *Node, err error) error {
	switch {
	case s.life.Err() != nil:
		return lockagent.ErrClosed
	case n.life.Err() != nil:
		err = fmt.Errorf("%w: %w", errRetired, err)
	}
	return Error(err)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

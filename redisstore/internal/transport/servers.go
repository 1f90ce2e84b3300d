package transport

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/hashslot"
)

const (
	// topologyInterval is about how often Sentinels or nodes are asked which server serves
	// which slot, even if nothing tells of a change: an announcement may be missed.
	topologyInterval = 2 * time.Second

	// drained is how long a node of a Cluster that has lost its slots may go on with the
	// exchange that is under way.
	drained = 100 * time.Millisecond
)

// Config says which servers there are, and how to get in. Every field has to be set, unless
// its comment says that it may be empty.
type Config struct {
	Network string   // "tcp" or "unix"
	Addrs   []string // of servers, or of Sentinels
	// MasterSet is the name that the Sentinels have for the master. It is empty if Addrs are
	// the addresses of servers.
	MasterSet string

	User, Password                 string      // may be empty
	SentinelUser, SentinelPassword string      // may be empty
	Database                       int         // 0 in a Cluster
	TLS                            *tls.Config // nil for none
	ClientName                     string

	// Credentials may be nil. Otherwise each connection to a server, but not to a Sentinel, asks it for User and
	// Password. A server that does not take them may do so later.
	Credentials func(ctx context.Context) (user, password string, err error)

	// Logger is told of functions of the application that panic. It may be nil if there is neither TLS nor Credentials.
	Logger *slog.Logger

	// Probe are two keys in different slots that the user may read. A script with both tells
	// whether the keys of a call have to be in one slot, see [Servers.Slotted].
	Probe [2]string

	Dial    time.Duration // bounds the making of a connection
	Call    time.Duration // bounds a call, from when it was given to a lane
	Silence time.Duration // for how long a server may owe an answer before the connection is cut

	// Replicas and ReplicaTimeout are for calls that are Replicated. They may be 0 if there are none.
	Replicas       int
	ReplicaTimeout time.Duration // well below Silence

	// Meet, if not nil, is told of each connection that is to carry calls to a node, before the first of them. It asks
	// the node by run, and waits for the reply. No call is made on the connection if Meet returns an error.
	Meet func(n *Node, run func(script *Script, keys, args []string) Reply) error

	// Changed is called when a connection was made or lost, and when another server serves
	// some slot. It must not block.
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

	table  atomic.Pointer[table] // replaced under mu; all its nodes are in the map nodes
	doubts []chan struct{}       // each of capacity 1: asks a goroutine to update the table

	mu       sync.Mutex       // guards what follows
	nodes    map[string]*Node // by address
	replicas []string         // addresses in a Cluster, as of the last answer
	onRetire []func(*Node)
	onClose  []func()
	closed   bool

	drained time.Duration // see the constant; a test has another value

	asking sync.Mutex // held while a Cluster is asked for its slots; guards asked
	asked  time.Time  // when Refresh last got an answer

	sentinels sentinels
}

// Greeting is what a server says of itself.
type Greeting struct {
	Version string
	Mode    string // "standalone", "cluster" or "sentinel"
}

// table says which node serves which slot. A table never changes: another one replaces it.
type table struct {
	only  *Node // serves all slots, if it is not nil
	slots [hashslot.Count]*Node
	last  map[*Node]uint16 // the last slot that each node serves
}

// completed returns the table of the slots.
func (t *table) completed() *table {
	t.last = make(map[*Node]uint16)
	for slot, n := range t.slots {
		if n != nil {
			t.last[n] = uint16(slot)
		}
	}
	return t
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
// Servers. The error is in the words of the server, or of the connection. [Error] translates it.
func Connect(ctx context.Context, config Config) (*Servers, error) {
	s := &Servers{config: config, nodes: make(map[string]*Node), drained: drained}
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

// meet finds out what is at the addresses, and starts to follow changes.
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

// meetAny asks the servers at all addresses at once, and returns the first one that answers.
// Others may be down.
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
		failed = cmp.Or(failed, a.err)
	}
	return nil, Greeting{}, failed
}

// greet asks a node what it is.
func (n *Node) greet(ctx context.Context) (Greeting, error) {
	s, err := n.session(ctx)
	switch {
	case err == nil:
		return s.wire.greeting, nil
	case strings.Contains(err.Error(), "unknown command"):
		return Greeting{Version: "5 or less"}, nil
	}
	return Greeting{}, err
}

// isSlotted reports whether a node refuses a script with keys in different slots. A service does
// so if it shares the keys out among several servers behind one address.
func (n *Node) isSlotted(ctx context.Context, keys [2]string) bool {
	answer := Refusal("")
	err := n.Ask(ctx, "EVAL", "return 0", "2", keys[0], keys[1]).Err()
	return errors.As(err, &answer) && strings.HasPrefix(string(answer), "CROSSSLOT")
}

// serve notes that one node serves all slots, and gives up the one that did before.
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

// Cluster reports whether the servers are a Cluster.
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

// LastSlot is the last slot that a node serves. It reports false if the node serves none.
func (s *Servers) LastSlot(n *Node) (slot uint16, serves bool) {
	slot, serves = s.table.Load().last[n]
	return slot, serves
}

// Home is the last slot of the node that serves a slot, or the slot itself if no node is known to do so.
func (s *Servers) Home(slot uint16) uint16 {
	t := s.table.Load()
	if last, serves := t.last[t.slots[slot]]; serves {
		return last
	}
	return slot
}

// Master is the node that serves a slot. It is nil if none is known.
func (s *Servers) Master(slot uint16) *Node { return s.table.Load().node(slot) }

// nodeAt returns the node with an address. If there is none, it makes one.
func (s *Servers) nodeAt(addr string) *Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.node(addr)
}

// node is nodeAt. It expects mu to be held.
func (s *Servers) node(addr string) *Node {
	n := s.nodes[addr]
	if n == nil {
		how := login{s.config.User, s.config.Password, s.config.Database, s.config.Credentials}
		n = s.newNode(addr, how, s.config.Changed)
		if s.closed {
			n.end()
			return n
		}
		s.nodes[addr] = n
	}
	return n
}

// retire gives up a node, unless it serves again by now. The calls that wait for the node go to
// its successor.
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

// Doubt says that the table may be out of date. The servers are asked soon.
func (s *Servers) Doubt() {
	for _, doubt := range s.doubts {
		signal(doubt)
	}
}

// Close gives up all connections, and returns when the last goroutine has ended. Calls
// under way end with [lockagent.ErrClosed]. Close may be called again.
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

// register adds functions to call when a node is retired, and when the Servers are closed.
func (s *Servers) register(retired func(*Node), closed func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if retired != nil {
		s.onRetire = append(s.onRetire, retired)
	}
	s.onClose = append(s.onClose, closed)
}

// errRetired is the error of a call that was under way when its server was replaced.
var errRetired = errors.New("another server serves now")

// failure translates the error of an exchange with a node.
func (s *Servers) failure(n *Node, err error) error {
	switch {
	case s.life.Err() != nil:
		return lockagent.ErrClosed
	case n.life.Err() != nil:
		err = fmt.Errorf("%w: %w", errRetired, err)
	case s.config.Credentials != nil && isOfLogin(err):
		// That is not definite, and no refusal any more: the next connection asks anew.
		return fmt.Errorf("%w: the server does not take what Config.Credentials has told: %v",
			lockagent.ErrStoreUnavailable, err) //nolint:errorlint // see above
	}
	return Error(err)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

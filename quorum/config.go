package quorum

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockagent/lockagent"
)

// Defaults of a [Config].
const (
	DefaultLongestLease = time.Minute
	DefaultNodeTimeout  = 500 * time.Millisecond
)

// Config says how a quorum works. The zero Config is usable. All programs that use the same nodes
// need the same Config, except for NewNodes and Notify.
type Config struct {
	// LongestLease is the longest lease that a tenure may have. A request for a longer one is
	// refused. A node that lost its data keeps away for as long, because it may have forgotten
	// a lease of that length. Defaults to [DefaultLongestLease].
	LongestLease time.Duration

	// NewNodes says that the nodes are new: nobody can hold a lock that they have forgotten. They vote at
	// once. Set it for tests, and for the first start of a quorum if that must not wait. A new node looks like one that
	// was emptied just now, so without NewNodes it has no vote for LongestLease. If NewNodes stays
	// set, a program that starts after a node was emptied may be granted a lock that somebody holds. A node on Redis
	// begins with a grace period of its own: open it with redisstore.NoGraceFirst if that must not wait, either.
	NewNodes bool

	// NodeTimeout is how long a call waits for a node while the others do not decide it. Make it
	// longer if a round trip to the farthest node may take as long. Defaults to
	// [DefaultNodeTimeout].
	NodeTimeout time.Duration

	// Notify gets news about nodes and thin tenures, for metrics and logs. It must not block, and
	// may be called by several goroutines at once. [Config.Open] calls it, too, before it returns: for each node that
	// begins without a vote. Defaults to none.
	Notify func(Notice)
}

// least is the shortest lease that a node is asked for. In less, a majority may be hard to win.
const least = 500 * time.Millisecond

func (c Config) withDefaults() Config {
	if c.LongestLease == 0 {
		c.LongestLease = DefaultLongestLease
	}
	if c.NodeTimeout == 0 {
		c.NodeTimeout = DefaultNodeTimeout
	}
	if c.Notify == nil {
		c.Notify = func(Notice) {}
	}
	return c
}

// validate returns all errors of the Config and the nodes, joined.
func (c Config) validate(nodes []lockagent.Store) (all []*node, err error) {
	var wrong []error
	refuse := func(option, format string, args ...any) {
		wrong = append(wrong, &lockagent.OptionError{Option: option, Reason: fmt.Sprintf(format, args...)})
	}
	if c.LongestLease < least || c.LongestLease > lockagent.MaxLease {
		refuse("quorum.Config.LongestLease", "%v is not between %v and %v", c.LongestLease, least, lockagent.MaxLease)
	}
	if c.NodeTimeout < 0 {
		refuse("quorum.Config.NodeTimeout", "%v is negative; leave it out for %v", c.NodeTimeout, DefaultNodeTimeout)
	}
	if len(nodes) < 3 || len(nodes)%2 == 0 {
		refuse("quorum nodes", "there are %d; use an odd number of independent stores, 3 or more", len(nodes))
	}
	first := make(map[string]int) // by identity
	for i, store := range nodes {
		if store == nil {
			refuse("quorum nodes", "node %d is nil", i)
			continue
		}
		node, ok := newNode(store)
		if !ok {
			refuse(
				"quorum nodes", "node %d lacks Messages, Operator or History of package lockagent; use stores that have them", i,
			)
			continue
		}
		all = append(all, node)
		id := node.Identity()
		if other, met := first[id]; met && id != "" {
			refuse("quorum nodes", "nodes %d and %d are the same store", other, i)
		}
		first[id] = i
	}
	return all, errors.Join(wrong...)
}

// NoticeKind says what a [Notice] tells.
type NoticeKind uint8

// The kinds of notices. The comment of each kind names the fields that it sets beside Kind.
const (
	_ NoticeKind = iota
	// TenureThin: a renewal found that not all nodes have the tenure. The tenure is safe as
	// long as a majority has it. Name, Tenure, Holding.
	TenureThin
	// TenureRepaired: a node took up the tenure again. Name, Tenure, Node.
	TenureRepaired
	// NodeAway: the node may have forgotten leases. It has no vote for the time For. Node, For,
	// Reason.
	NodeAway
)

// Notice is news for operators.
type Notice struct {
	Kind    NoticeKind
	Node    int // the place among the nodes, from 0
	Name    lockagent.Name
	Tenure  lockagent.Tenure
	Holding int // the number of nodes that have the tenure
	For     time.Duration
	Reason  string // for people, as in [lockagent.Reset]
}

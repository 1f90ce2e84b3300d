package quorum

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent"
)

// A Store has no queue, no rests, no semaphores and no latches.
var (
	_ lockagent.Store    = (*Store)(nil)
	_ lockagent.Messages = (*Store)(nil)
	_ lockagent.Operator = (*Store)(nil)
	_ lockagent.History  = (*Store)(nil)
)

// Store is a [lockagent.Store] made of an odd number of others, its nodes. [Open] makes one. The
// zero Store is of no use. A Store is safe for concurrent use.
type Store struct {
	cfg      Config
	nodes    []*node
	majority int
	cancels  []func() // of what is registered at the nodes

	closed atomic.Bool

	mu      sync.Mutex // guards what follows, and the nodes, tenures and attempts
	tenures map[claim]*tenure
	crowds  map[lockagent.Name]*crowd
	hooks   []*resetHook
	ids     []string // the identities of the nodes when all were known
}

// node is one of the stores, with what is known of it.
type node struct {
	lockagent.Store
	lockagent.Messages
	lockagent.Operator
	lockagent.History
	probation
	silent bool // the last attempt waited for its vote in vain
}

// newNode reports false if the store lacks a layer that a node needs.
func newNode(s lockagent.Store) (n *node, ok bool) {
	messages, tells := lockagent.Layer[lockagent.Messages](s)
	operator, operates := lockagent.Layer[lockagent.Operator](s)
	history, remembers := lockagent.Layer[lockagent.History](s)
	return &node{Store: s, Messages: messages, Operator: operator, History: history}, tells && operates && remembers
}

// Open makes a quorum of nodes with the zero [Config].
func Open(nodes ...lockagent.Store) (*Store, error) { return Config{}.Open(nodes...) }

// Open makes a quorum of nodes. They belong to it from now on: closing it closes them. The error is
// one or more [*lockagent.OptionError]. Then the nodes stay open.
func (c Config) Open(nodes ...lockagent.Store) (*Store, error) {
	c = c.withDefaults()
	all, err := c.validate(nodes)
	if err != nil {
		return nil, err
	}
	s := &Store{
		cfg: c, nodes: all, majority: len(all)/2 + 1, tenures: make(map[claim]*tenure),
		crowds: make(map[lockagent.Name]*crowd),
	}
	for i, n := range s.nodes {
		s.cancels = append(s.cancels, n.OnReset(func(reset lockagent.Reset) { s.nodeReset(i, reset) }))
	}
	s.meet()
	return s, nil
}

// check returns the error of a request that no node is asked for.
func (s *Store) check(kind lockagent.LockKind, err error) error {
	if err == nil && kind.OrPlain() != lockagent.PlainLock {
		err = &lockagent.OptionError{
			Option: "kind", Reason: fmt.Sprintf("a quorum has no locks of the kind %.64q, only plain ones", kind),
		}
	}
	return err
}

// Identity implements [lockagent.History]. It is made of the identities of the nodes, in any order.
// It is empty until all of them are known.
func (s *Store) Identity() string {
	ids := make([]string, len(s.nodes))
	for i, n := range s.nodes {
		if ids[i] = n.Identity(); ids[i] == "" {
			ids = nil
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if ids != nil {
		s.ids = ids
	}
	return identity(s.ids)
}

func identity(ids []string) string {
	if ids == nil {
		return ""
	}
	ids = slices.Sorted(slices.Values(ids))
	sum := sha256.Sum256([]byte(strings.Join(ids, "\n")))
	return "quorum-" + hex.EncodeToString(sum[:16])
}

// RemembersSince implements [lockagent.History]. It is zero: nodes that may have forgotten something have no vote.
func (s *Store) RemembersSince() time.Time { return time.Time{} }

// Inspect implements [lockagent.Operator]. The holder is the one that a majority of the nodes has.
func (s *Store) Inspect(
	ctx context.Context, name lockagent.Name, kind lockagent.LockKind, done func(lockagent.Inspection, error),
) {
	_, err := lockagent.ParseName(string(name))
	if err := s.check(kind, err); err != nil {
		done(lockagent.Inspection{}, err)
		return
	}
	p := newPoll(s, s.inspected, done)
	p.ask(func(n *node, told func(lockagent.Inspection, error)) { n.Inspect(ctx, name, kind, told) })
}

// inspected decides an Inspect.
func (s *Store) inspected(
	votes []vote[lockagent.Inspection], last bool,
) (seen lockagent.Inspection, err error, decided bool) {
	var all tally
	for _, v := range votes {
		if v.told() {
			all.add(v.reply.Holder, v.reply.Remaining)
		}
	}
	holder, holding := all.first()
	free := all.holders[""]
	switch {
	case free >= s.majority, last && len(all.left) >= s.majority && holding+len(votes)-len(all.left) < s.majority:
		return seen, nil, true
	case holding >= s.majority, last && len(all.left) >= s.majority:
		seen = lockagent.Inspection{Held: true, Holder: holder, Remaining: all.free(s.majority)}
		for _, v := range votes {
			if v.told() && v.reply.Holder == holder {
				seen.HoldCount = max(seen.HoldCount, v.reply.HoldCount)
			}
		}
		return seen, nil, true
	}
	err, decided = failure(s, votes, last)
	return seen, err, decided
}

// Time implements [lockagent.History].
func (s *Store) Time(ctx context.Context, done func(lockagent.StoreTime, error)) {
	p := newPoll(s, func(votes []vote[lockagent.StoreTime], last bool) (lockagent.StoreTime, error, bool) {
		var ats []lockagent.StoreTime
		for _, v := range votes {
			if v.told() {
				ats = append(ats, v.reply)
			}
		}
		if len(ats) >= s.majority {
			return s.bound(ats), nil, true
		}
		err, decided := failure(s, votes, last)
		return 0, err, decided
	}, done)
	p.ask(func(n *node, told func(lockagent.StoreTime, error)) { n.Time(ctx, told) })
}

// bound returns the greatest time that no later grant can be before. ats are what a majority of the
// clocks showed. A grant needs another majority, and its time is not below any of the clocks there.
// In the worst case that majority has all nodes that did not tell, and then those with the least
// times.
func (s *Store) bound(ats []lockagent.StoreTime) lockagent.StoreTime {
	slices.Sort(ats)
	return ats[s.majority-1-(len(s.nodes)-len(ats))]
}

// Close implements [lockagent.Store]. It closes the nodes.
func (s *Store) Close() error {
	s.closed.Store(true)
	for _, cancel := range s.cancels {
		cancel()
	}
	var errs []error
	for _, n := range s.nodes {
		errs = append(errs, n.Close())
	}
	return errors.Join(errs...)
}

package quorum

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/lockagent/lockagent"
)

// vote is the answer of one node.
type vote[R any] struct {
	came  bool
	reply R
	err   error
}

// told reports whether the node has answered without an error.
func (v *vote[R]) told() bool { return v.came && v.err == nil }

// poll is a call to all nodes. It is answered as soon as the votes decide it: decide returns the
// outcome then, and no later than with the last vote. A node that has not voted when the timeout has
// passed is silent, and its vote comes too late.
type poll[R any] struct {
	store  *Store
	decide func(votes []vote[R], last bool) (R, error, bool)
	done   func(R, error)
	// rest is called after done, when no vote that counts is missing any more. It may be nil.
	rest func(votes []vote[R])

	mu       sync.Mutex // guards what follows
	votes    []vote[R]
	missing  int
	answered bool
	overdue  *time.Timer
}

func newPoll[R any](s *Store, decide func([]vote[R], bool) (R, error, bool), done func(R, error)) *poll[R] {
	return &poll[R]{store: s, decide: decide, done: done, votes: make([]vote[R], len(s.nodes)), missing: len(s.nodes)}
}

// ask calls all nodes.
func (p *poll[R]) ask(call func(n *node, told func(R, error))) {
	p.start()
	for i, n := range p.store.nodes {
		call(n, p.voter(i))
	}
}

// start begins to count the time.
func (p *poll[R]) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.overdue = time.AfterFunc(p.store.cfg.NodeTimeout, func() { p.take(nil) })
}

// voter returns the function that takes the vote of a node.
func (p *poll[R]) voter(i int) func(R, error) {
	return func(reply R, err error) {
		p.take(func(votes []vote[R]) { votes[i] = vote[R]{true, reply, err} })
	}
}

// take takes a vote, or makes the missing votes errors if cast is nil.
func (p *poll[R]) take(cast func([]vote[R])) {
	p.mu.Lock()
	if p.missing == 0 { // the vote is too late, or the timeout
		p.mu.Unlock()
		return
	}
	if cast != nil {
		cast(p.votes)
		p.missing--
	} else {
		p.missing = 0
		for i := range p.votes {
			if !p.votes[i].came {
				p.votes[i] = vote[R]{came: true, err: errSilent}
			}
		}
	}
	last := p.missing == 0
	if last {
		p.overdue.Stop()
	}
	var reply R
	var err error
	answers := false
	if !p.answered {
		reply, err, answers = p.decide(p.votes, last)
		p.answered = answers
	}
	p.mu.Unlock()
	if answers {
		p.done(reply, err)
	}
	if last && p.rest != nil {
		p.rest(p.votes)
	}
}

var errSilent = fmt.Errorf("%w: the node is silent", lockagent.ErrStoreUnavailable)

// failure decides a call that the answers alone do not decide: by an error that a majority agrees
// on, or because no vote is missing any more.
func failure[R any](s *Store, votes []vote[R], last bool) (err error, decided bool) {
	errs := make([]error, len(votes))
	for i := range votes {
		errs[i] = votes[i].err
	}
	definite := 0
	for _, e := range errs {
		if e != nil && lockagent.Definite(e) {
			definite++
			err = e
		}
	}
	if definite >= s.majority {
		return err, true
	}
	return s.unavailable(errs), last
}

// agreed decides a call that nodes answer by yes or no: when a majority agrees, or when all have
// answered that will, and are a majority.
func agreed[R any](s *Store, votes []vote[R], last bool, yes, no int) (err error, decided bool) {
	if yes >= s.majority || no >= s.majority || last && yes+no >= s.majority {
		return nil, true
	}
	return failure(s, votes, last)
}

// unavailable is the error of a call that no majority has answered. It is not definite, whatever
// the errors of the nodes are, unless the quorum is closed.
func (s *Store) unavailable(errs []error) error {
	if s.closed.Load() {
		return lockagent.ErrClosed
	}
	var texts []string
	for i, err := range errs {
		if err != nil {
			texts = append(texts, fmt.Sprintf("node %d: %v", i, err))
		}
	}
	return fmt.Errorf(
		"%w: no majority of %d nodes (%s)", lockagent.ErrStoreUnavailable, len(s.nodes), strings.Join(texts, "; "),
	)
}

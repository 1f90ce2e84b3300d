package actor

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// belief is what an owner believes of its hold.
type belief struct {
	owner lockagent.Owner
	token lockagent.Token
	held  func() bool
}

// believers know who believes to hold each lock, whatever process is at work. They remember what happened to each
// lock, in order. So a report says how it came to two holders.
type believers struct {
	t     *testing.T
	began time.Time

	mu     sync.Mutex
	all    map[lockagent.Name]map[lockagent.Token]belief // guarded by mu
	tokens map[lockagent.Name]lockagent.Token            // guarded by mu; the greatest
	past   map[lockagent.Name][]happening                // guarded by mu; the latest
}

// happening is something that happened to a lock. Its text is made when somebody wants to read it.
type happening struct {
	after  time.Duration
	format string
	args   []any
}

// remembered is how much of the past of a lock a report tells.
const remembered = 150

func newBelievers(t *testing.T) *believers {
	return &believers{
		t: t, began: time.Now(),
		all:    make(map[lockagent.Name]map[lockagent.Token]belief),
		tokens: make(map[lockagent.Name]lockagent.Token),
		past:   make(map[lockagent.Name][]happening),
	}
}

// happens is told what happens to a lock.
func (b *believers) happens(name lockagent.Name, format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.happensLocked(name, format, args...)
}

func (b *believers) happensLocked(name lockagent.Name, format string, args ...any) {
	past := append(b.past[name], happening{time.Since(b.began), format, args})
	b.past[name] = past[max(0, len(past)-remembered):]
}

// happensToAll is told what happens to every lock.
func (b *believers) happensToAll(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name := range b.past {
		b.happensLocked(name, format, args...)
	}
}

// story is the past of a lock, one line for each thing that happened.
func (b *believers) storyLocked(name lockagent.Name) string {
	var s strings.Builder
	for _, h := range b.past[name] {
		fmt.Fprintf(&s, "\n\t%12v  %s", h.after, fmt.Sprintf(h.format, h.args...))
	}
	return s.String()
}

// Record is told what the agents say of their locks.
func (b *believers) Record(_ context.Context, e lockagent.Event) {
	if e.Lock != "" {
		b.happens(
			e.Lock, "%s says: %v of %q, token %d, tenure %d, reason %v", e.Agent, e.Kind, e.Owner, e.Token, e.Tenure, e.Reason,
		)
	}
}

// believe is told of a new hold, or of one that goes on elsewhere.
func (b *believers) believe(
	name lockagent.Name, owner lockagent.Owner, token lockagent.Token, held func() bool, goesOn bool,
) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all[name] == nil {
		b.all[name] = make(map[lockagent.Token]belief)
	}
	if !held() {
		return
	}
	b.happensLocked(name, "%q believes in token %d (it goes on: %v)", owner, token, goesOn)
	for _, other := range b.all[name] {
		if other.token != token && other.held() {
			b.t.Errorf(
				"%q: %q (token %d) and %q (token %d) hold at once%s", name, other.owner, other.token, owner, token,
				b.storyLocked(name),
			)
		}
	}
	if !goesOn && token <= b.tokens[name] {
		b.t.Errorf("%q: token %d after %d%s", name, token, b.tokens[name], b.storyLocked(name))
	}
	b.tokens[name] = max(b.tokens[name], token)
	b.all[name][token] = belief{owner, token, held}
}

// believed reports whether somebody believes to hold a lock with a token.
func (b *believers) believed(name lockagent.Name, token lockagent.Token) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	held, ok := b.all[name][token]
	return ok && held.held()
}

// over is told that an owner is about to release.
func (b *believers) over(g lockagent.Grant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.happensLocked(g.Name(), "%q is about to release token %d, held: %v", g.Owner(), g.Token(), g.Held())
	if g.Held() { // by this process
		delete(b.all[g.Name()], g.Token())
	}
}

// narrated is a store that tells believers what takes effect in it.
type narrated struct {
	whole
	b *believers
}

func (s narrated) Acquire(ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error)) {
	s.whole.Acquire(ctx, req, func(r lockagent.AcquireReply, err error) {
		s.b.happens(req.Name, "store: acquire by %v for %v: %+v, %v", req.Tenure, req.Lease, r, err)
		done(r, err)
	})
}

func (s narrated) Renew(ctx context.Context, req lockagent.RenewRequest, done func(lockagent.RenewReply, error)) {
	s.whole.Renew(ctx, req, func(r lockagent.RenewReply, err error) {
		s.b.happens(req.Name, "store: renewal by %v for %v: %+v, %v", req.Tenure, req.Lease, r, err)
		done(r, err)
	})
}

func (s narrated) Release(ctx context.Context, req lockagent.ReleaseRequest, done func(lockagent.ReleaseReply, error)) {
	s.whole.Release(ctx, req, func(r lockagent.ReleaseReply, err error) {
		s.b.happens(req.Name, "store: release by %v: %+v, %v", req.Tenure, r, err)
		done(r, err)
	})
}

package actor

import (
	"cmp"
	"errors"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// explain is the error of a request that was not granted.
func (l *lock) explain(e *lockstate.Event) error {
	if l.draining || !e.TimedOut && !e.Cancelled {
		return e.Err
	}
	err := &lockagent.WaitError{
		Name: l.entry.name, Kind: l.entry.kind, Waited: e.Now.Sub(e.Request.Arrived), Holder: l.holder(),
		TimedOut: e.TimedOut, Err: e.Err, Store: l.news.err(), Permits: e.Request.Permits,
	}
	if err.Permits > 0 { // what the store says of a semaphore tells more than one of its holders
		err.Holder = cmp.Or(l.news.holder(), err.Holder)
	}
	_, _, count, _ := l.state.Hold()
	err.Silent = l.news.silent(e.Request.Arrived, e.Now, count > 0)
	return err
}

// holder is who has the lock: the owner of this agent's oldest grant, or what the store last
// said. It is empty if that is not known.
func (l *lock) holder() string {
	if owner, _, count, _ := l.state.Hold(); count > 0 {
		return string(owner)
	}
	return l.news.holder()
}

// news is what the lock knows of the store, for the errors of requests that wait. It is small
// while all is well.
type news struct {
	since lockstate.Instant // when the store's silence began: the first call without an answer was sent; 0 if none
	bad   *badNews          // nil while all is well
}

type badNews struct {
	holder string // the holder elsewhere, by the store's last answer
	err    error  // the error of the last call, unless the store has answered since
}

// slow is how long a call may take before the store counts as silent. The store may put a
// renewal off for half of that.
const slow = 200 * time.Millisecond

func (n *news) asked(now lockstate.Instant) {
	if n.since == 0 {
		n.since = max(now, 1)
	}
}

// heard notes how a call ended.
func (n *news) heard(err error) {
	answered := err == nil || lockagent.Definite(err)
	if answered || errors.Is(err, lockagent.ErrGrace) {
		n.since = 0
	}
	switch holder := n.holder(); {
	case !answered:
		n.bad = &badNews{holder, err}
	case n.err() != nil:
		n.heldBy(holder)
	}
}

// heldBy notes the holder elsewhere.
func (n *news) heldBy(holder string) { n.bad = &badNews{holder: holder} }

func (n *news) holder() string {
	if n.bad == nil {
		return ""
	}
	return n.bad.holder
}

func (n *news) err() error {
	if n.bad == nil {
		return nil
	}
	return n.bad.err
}

// silent is for how long the store has been silent, for a request that arrived at an instant. A
// call that is under way counts if it takes long. It also counts if the request has waited for
// nothing else. local says that the request waits for a holder of this agent.
func (n *news) silent(arrived, now lockstate.Instant, local bool) time.Duration {
	if n.since == 0 {
		return 0
	}
	silent := now.Sub(n.since)
	if n.err() == nil && silent < slow && (local || n.since > max(arrived, 1)) {
		return 0
	}
	return silent
}

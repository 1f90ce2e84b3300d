package redisstore

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockagent/lockagent"
)

const (
	// Between two looks at the server there is at least firstPause. A look that failed is
	// repeated after a pause, which doubles up to lastPause. The pauses are short, because
	// holders have to learn soon that the server forgot them.
	firstPause = 100 * time.Millisecond
	lastPause  = time.Second
)

// incarnations knows the present incarnation of the store, and tells of resets.
//
// A database keeps the name of its incarnation. The name has two parts, "<data>.<run>":
//
//   - data is the time since which the database has had its data. If a script finds the
//     database without a name, the data are gone, and the script writes a new name.
//   - run is the run of the server, which is new after each start. The server may be a replica
//     that took over. In both cases the data may lack the latest writes.
//
// Every acquire reads the name. Only a look at the server compares the run with the name. The
// store looks when there is reason to: it lost or made a connection, the server denied a
// renewal, or another agent tells of a new incarnation. For a Cluster, see [nodes].
type incarnations struct {
	// watched reports whether Sentinels choose the server. Then a new run is the run of
	// another server.
	watched bool

	doubt   chan struct{} // capacity 1: there is reason to look
	changes chan struct{} // capacity 1: there is a reset in untold

	mu      sync.Mutex          // guards what follows
	epoch   uint64              // how often the name has changed
	current string              // the name of the incarnation; empty if not known yet
	since   time.Time           // the latest instant at which something can have been forgotten
	last    lockagent.StoreTime // when current was last seen, without doubt
	inDoubt bool                // a look is due: replies may come from another run under the old name
	untold  []lockagent.Reset
	hooks   []*resetHook
}

type resetHook struct{ call func(lockagent.Reset) }

func newIncarnations(watched bool) *incarnations {
	return &incarnations{
		watched: watched,
		since:   time.Now(),
		doubt:   make(chan struct{}, 1),
		changes: make(chan struct{}, 1),
	}
}

// known returns the name of the present incarnation, which may be empty, and the epoch.
func (i *incarnations) known() (name string, epoch uint64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.current, i.epoch
}

// remembersSince is the latest instant at which the present incarnation can have begun.
func (i *incarnations) remembersSince() time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.since
}

// connected takes note of the instant at which a connection was made to a server that does not tell its run. Before, it
// may have been another run.
func (i *incarnations) connected(at time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if at.After(i.since) {
		i.since = at
	}
}

// began takes note of the instant at which the first incarnation had begun at the latest.
func (i *incarnations) began(since time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.since = since
}

// observe takes note of the name in a reply. epoch is what known returned before the call was
// sent. If the name has changed since, another name does not count: it may be that of the past. If
// it is that of the present, a later reply has it again. Other resets do not matter: a reply that shows
// a step of the clock may also be the first one to name a new incarnation.
func (i *incarnations) observe(name string, at lockagent.StoreTime, epoch uint64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case name == i.current:
		if !i.inDoubt {
			i.last = max(i.last, at)
		}
	case i.current == "":
		i.current, i.last = name, at
	case epoch == i.epoch:
		i.epoch++
		i.changed(lockagent.Reset{From: i.current, To: name, Reason: i.reason(name), After: i.last, Before: at})
		i.current, i.last = name, at
	}
}

// reason is the reason of a reset from the current incarnation to the next one.
func (i *incarnations) reason(next string) string {
	data, _, _ := strings.Cut(i.current, ".")
	switch {
	case !strings.HasPrefix(next, data+"."):
		return "emptied"
	case i.watched:
		return "failed over"
	}
	return "restarted"
}

// report takes note of a reset that does not change the name of the incarnation.
func (i *incarnations) report(reset lockagent.Reset) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.changed(reset)
}

// changed is report. It expects mu to be held.
func (i *incarnations) changed(reset lockagent.Reset) {
	if reset.From != reset.To || reset.Step >= 0 { // a clock that was set back makes leases longer
		i.since = time.Now()
	}
	i.untold = append(i.untold, reset)
	signal(i.changes)
	signal(i.doubt) // the servers may have lost their identity
}

// suspect asks for a look at the server.
func (i *incarnations) suspect() {
	i.mu.Lock()
	i.inDoubt = true
	i.mu.Unlock()
	signal(i.doubt)
}

// assured ends the doubt after a look, unless there is reason for another look.
func (i *incarnations) assured() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.inDoubt = len(i.doubt) > 0
}

// settled drops the suspicion that the first connections have caused.
func (i *incarnations) settled() {
	select {
	case <-i.doubt:
	default:
	}
	i.assured()
}

// run tells of resets in their order, and calls look when there is reason to, until ctx is done.
// look asks the server, and calls observe or report. It fails if the server does not answer.
func (i *incarnations) run(ctx context.Context, look func(context.Context) error) {
	var rest <-chan time.Time // if not nil, no look before it delivers
	pause, failed := firstPause, false
	for {
		doubt := i.doubt
		if rest != nil {
			doubt = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-i.changes:
			i.tell()
			continue
		case <-rest:
			rest = nil
			if !failed {
				continue
			}
		case <-doubt:
		}
		if failed = look(ctx) != nil; failed {
			rest = time.After(pause)
			pause = min(2*pause, lastPause)
		} else {
			i.assured()
			pause = firstPause
			rest = time.After(pause)
		}
	}
}

// onReset registers f for the resets from now on.
func (i *incarnations) onReset(f func(lockagent.Reset)) (cancel func()) {
	hook := &resetHook{call: f}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.hooks = append(i.hooks, hook)
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.hooks = slices.DeleteFunc(i.hooks, func(other *resetHook) bool { return other == hook })
	}
}

func (i *incarnations) tell() {
	i.mu.Lock()
	untold, hooks := i.untold, slices.Clone(i.hooks)
	i.untold = nil
	i.mu.Unlock()
	for _, reset := range untold {
		for _, hook := range hooks {
			hook.call(reset)
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

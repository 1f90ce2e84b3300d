package redisstore

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/script"
)

const (
	// Between two looks at the server there is at least firstPause. A look that failed is
	// repeated after a pause, which doubles up to lastPause. The pauses are short, because
	// holders have to learn soon that the server forgot them.
	firstPause = 100 * time.Millisecond
	lastPause  = time.Second
)

// firstStart is the reason of a grace period in a database that nobody knew.
const firstStart = "first start"

// incarnations knows the present incarnation of the store, and tells of resets.
//
// A database keeps the name of its incarnation, "<data>.<run>.<began>", or "<data>.<run>" without a grace period:
//
//   - data is the time since which the database has had its data. If a script finds the
//     database without a name, the data are gone, and the script writes a new name.
//   - run is the run of the server, which is new after each start. The server may be a replica
//     that took over. In both cases the data may lack the latest writes.
//   - began is when the grace period began.
//
// Every acquire reads the name. Only a look at the server compares the run with the name. The store looks by each
// connection that is to carry calls, before the first call: so no call reaches another run under the name of the one
// before. It also looks when there is reason to: it lost a connection, the server denied a renewal, or another agent
// tells of a new incarnation. For a Cluster, see [nodes].
type incarnations struct {
	// watched reports whether Sentinels choose the server. Then a new run is the run of
	// another server.
	watched bool

	doubt   chan struct{} // capacity 1: there is reason to look
	changes chan struct{} // capacity 1: there is something in untold

	mu      sync.Mutex            // guards what follows
	epoch   uint64                // how often the name has changed
	current string                // the name of the incarnation; empty if not known yet
	why     string                // it began, as in a Reset
	since   time.Time             // the latest instant at which something can have been forgotten
	last    lockagent.StoreTime   // when current was last seen, without doubt
	inDoubt bool                  // a look is due: replies may come from another run under the old name
	grace   lockagent.GracePeriod // that goes on in current; the zero one if there is none
	untold  []news
	hooks   []*hook
}

// news is a reset, or a grace period that has begun or ended.
type news struct {
	reset *lockagent.Reset
	grace *lockagent.GracePeriod
}

// hook has one of two functions.
type hook struct {
	reset func(lockagent.Reset)
	grace func(lockagent.GracePeriod)
}

func newIncarnations(watched bool) *incarnations {
	return &incarnations{
		watched: watched,
		why:     firstStart,
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
		i.why = i.reason(name)
		i.changed(lockagent.Reset{From: i.current, To: name, Reason: i.why, After: i.last, Before: at})
		i.current, i.last, i.grace = name, at, lockagent.GracePeriod{}
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
	i.add(news{reset: &reset})
	signal(i.doubt) // the servers may have lost their identity
}

// add expects mu to be held.
func (i *incarnations) add(n news) {
	i.untold = append(i.untold, n)
	signal(i.changes)
}

// seen takes note of what a look at the server has seen. epoch is as for observe.
func (i *incarnations) seen(l *script.Looked, epoch uint64) {
	i.observe(l.Name, l.At, epoch)
	i.mu.Lock()
	defer i.mu.Unlock()
	if l.Name != i.current {
		return // it is of the past
	}
	switch begun := i.grace.Incarnation == l.Name; {
	case l.Left >= 0 && !begun:
		i.grace = lockagent.GracePeriod{
			Incarnation: l.Name, Reason: i.why, Began: script.Began(l.Name), Roll: l.Awaited,
		}
		period := i.grace
		i.add(news{grace: &period})
	case l.Left < 0 && begun:
		i.endGrace(l.At, nil)
	}
}

// refused takes note that a grace period in an incarnation has refused a call. epoch is as for observe. Only a look
// tells for whom the period waits.
func (i *incarnations) refused(name string, at lockagent.StoreTime, epoch uint64) {
	i.observe(name, at, epoch)
	if i.graced() == "" {
		i.suspect()
	}
}

// over takes note of the message that a grace period is over. It reports false if the present incarnation is another
// one.
func (i *incarnations) over(at lockagent.StoreTime, name string, absent []lockagent.AgentID) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if name == i.grace.Incarnation {
		i.endGrace(at, absent)
	}
	return name == i.current
}

// endGrace expects mu to be held.
func (i *incarnations) endGrace(at lockagent.StoreTime, absent []lockagent.AgentID) {
	period := i.grace
	period.Ended, period.Roll = max(at, period.Began), absent
	i.grace = lockagent.GracePeriod{}
	i.add(news{grace: &period})
}

// graced is the incarnation in which a grace period goes on, as far as is known, or "".
func (i *incarnations) graced() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.grace.Incarnation
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

// on registers a hook for the news from now on.
func (i *incarnations) on(h *hook) (cancel func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.hooks = append(i.hooks, h)
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.hooks = slices.DeleteFunc(i.hooks, func(other *hook) bool { return other == h })
	}
}

func (i *incarnations) tell() {
	i.mu.Lock()
	untold, hooks := i.untold, slices.Clone(i.hooks)
	i.untold = nil
	i.mu.Unlock()
	for _, n := range untold {
		for _, h := range hooks {
			switch {
			case n.reset != nil && h.reset != nil:
				h.reset(*n.reset)
			case n.grace != nil && h.grace != nil:
				h.grace(*n.grace)
			}
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

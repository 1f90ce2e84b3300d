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
	// Between two looks at the server there is at least firstPause. After one that
	// failed the next comes of itself, after a pause that doubles up to lastPause:
	// holders wait to be told that the server forgot them.
	firstPause = 100 * time.Millisecond
	lastPause  = time.Second
)

// incarnations knows in which of its lives the server is, and tells when that
// changes.
//
// A database has a name for its incarnation, kept in the database itself: which
// data it has (named anew when there is none), and which run of the server serves
// it. So it changes when the data are lost, and also when they are kept by a
// server that was restarted, or by the replica that took its place, for these may
// lack what was written last. Every acquire reads the name. The run is looked at
// when there is reason to: a connection was lost or made, or a tenure turned out
// to be over that was to be renewed.
type incarnations struct {
	// watched reports whether a Sentinel chooses the server: then another run is
	// that of another server.
	watched bool

	doubt   chan struct{} // capacity 1: there is reason to look
	changes chan struct{} // capacity 1: there is something in untold

	mu      sync.Mutex // guards what follows
	epoch   uint64     // how many changes there have been
	current string
	last    lockagent.StoreTime // when current was seen last
	inDoubt bool                // what is seen meanwhile may be another run's
	untold  []lockagent.Reset
	hooks   []*resetHook
}

type resetHook struct{ call func(lockagent.Reset) }

func newIncarnations(watched bool) *incarnations {
	return &incarnations{
		watched: watched,
		doubt:   make(chan struct{}, 1),
		changes: make(chan struct{}, 1),
	}
}

// known returns the present incarnation, which may be empty, and the number of changes
// there have been.
func (i *incarnations) known() (name string, epoch uint64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.current, i.epoch
}

// observe takes the name of the incarnation out of a reply. epoch is what known
// returned before the call was sent: if there was a change since, another name is
// that of the past, or will be seen again.
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
		i.changed(lockagent.Reset{From: i.current, To: name, Reason: i.reason(name), After: i.last, Before: at})
		i.current, i.last = name, at
	}
}

// reason says in a word how the current incarnation became the next one.
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

// report takes note of a change that look found.
func (i *incarnations) report(reset lockagent.Reset) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.changed(reset)
}

// changed expects mu to be held.
func (i *incarnations) changed(reset lockagent.Reset) {
	i.epoch++
	i.untold = append(i.untold, reset)
	signal(i.changes)
}

// suspect has the server looked at soon.
func (i *incarnations) suspect() {
	i.mu.Lock()
	i.inDoubt = true
	i.mu.Unlock()
	signal(i.doubt)
}

// assured ends the doubt after a look, unless there is reason for another.
func (i *incarnations) assured() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.inDoubt = len(i.doubt) > 0
}

// settled takes back what was suspected before the store was open.
func (i *incarnations) settled() {
	select {
	case <-i.doubt:
	default:
	}
	i.assured()
}

// run looks at the server when there is reason to, and tells of resets in their
// order, until ctx is done. look calls observe or report with what it finds, and
// fails if the server cannot be asked.
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

// onReset registers f for what is found from now on.
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

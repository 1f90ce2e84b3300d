package api

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/natslog"
)

// mostPast is how many messages of the log a client that may only watch has the daemon read that were there before. To
// decode them costs some seconds.
const mostPast = 100_000

// errTooMany ends the reading of a log that has more of them.
var errTooMany = errors.New("api: the log has too many messages since then")

// watcher tells a client of the events that it may see. It reads all of the log for that, so it knows what is missing.
type watcher struct {
	visible func(lockagent.Name) bool
	tell    events.Visit
	begin   uint64 // the position of the first message that is told at all

	last uint64 // the last position
}

// newWatcher returns a watcher of a log whose last message had this position when it was called.
func newWatcher(last uint64, visible func(lockagent.Name) bool, tell events.Visit) *watcher {
	return &watcher{visible: visible, tell: tell, begin: max(last, mostPast) - mostPast + 1}
}

// run reads the log from there on.
func (w *watcher) run(ctx context.Context, read readFunc, from natslog.From) error {
	err := read(ctx, from, events.Filter{}, w.visit)
	if errors.Is(err, errTooMany) {
		const text = "only the last %d messages of the log are told; lockagent events history has those before"
		if err = w.missing(w.begin-1, fmt.Sprintf(text, mostPast)); err == nil {
			err = read(ctx, natslog.FromPosition(w.begin), events.Filter{}, w.visit)
		}
	}
	return err
}

func (w *watcher) visit(r *events.Record, err error) error {
	if errors.Is(err, natslog.ErrRewound) {
		w.last, w.begin = r.Position, 0 // the log may have been made anew, with positions from 1 on
		return w.missing(r.Position, "the end of the log was lost; events may be missing here")
	}
	if r.Position < w.begin {
		return errTooMany
	}
	if w.last != 0 && r.Position > w.last+1 {
		// The client has read more slowly than the log discards, or some of the log is damaged.
		what := fmt.Sprintf("%d messages of the log are gone; events are missing here", r.Position-w.last-1)
		if failed := w.missing(r.Position-1, what); failed != nil {
			return failed
		}
	}
	w.last = r.Position
	switch {
	case err != nil: // which may name a lock that the client may not see
		return w.missing(r.Position, "a message of the log cannot be read; an event may be missing here")
	case r.Kind == lockagent.EventRenewed, r.Kind == lockagent.EventHolding: // they say that all goes on
		return nil
	case r.Lock == "" || !w.visible(r.Lock):
		return nil
	}
	return w.tell(r, nil)
}

// missing tells what the log lacks at a position.
func (w *watcher) missing(position uint64, what string) error {
	return w.tell(&events.Record{Position: position}, errors.New(what))
}

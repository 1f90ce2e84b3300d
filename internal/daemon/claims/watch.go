package claims

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/lockagent/lockagent"
)

// maxChanges is how many locks may have changed that the reader of a [Watch] has not been told of.
const maxChanges = 10_000

// Watch tells which locks change. Several changes of one lock are one, until the reader has been told of them. Stop it
// in the end.
type Watch struct {
	book  *Book
	match func(lockagent.Name) bool
	wake  chan struct{} // has a value when there may be something to read

	mu sync.Mutex // guards what follows; whoever has it does not wait for that of the book
	// Names that match and names that do not: a pattern may take long, and the claims do not wait for it.
	names map[lockagent.Name]struct{}
	lost  bool // there were more changes than maxChanges
}

// Watch begins to watch the locks whose names match.
func (b *Book) Watch(match func(lockagent.Name) bool) *Watch {
	w := &Watch{book: b, match: match, wake: make(chan struct{}, 1), names: make(map[lockagent.Name]struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watches[w] = struct{}{}
	return w
}

// Stop ends the watch.
func (w *Watch) Stop() {
	w.book.mu.Lock()
	defer w.book.mu.Unlock()
	delete(w.book.watches, w)
}

// Next waits for changes, and returns the names of the locks in order. lost tells that there were too many: any lock
// may have changed. If ctx ends, the error is its cause.
func (w *Watch) Next(ctx context.Context) (names []lockagent.Name, lost bool, err error) {
	for {
		select {
		case <-w.wake:
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
		names, lost = w.take()
		names = slices.DeleteFunc(names, func(name lockagent.Name) bool { return ctx.Err() != nil || !w.match(name) })
		if ctx.Err() != nil {
			return nil, false, context.Cause(ctx)
		}
		if lost || len(names) > 0 {
			return names, lost, nil
		}
	}
}

// take returns what has changed.
func (w *Watch) take() (names []lockagent.Name, lost bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	names, lost = slices.Sorted(maps.Keys(w.names)), w.lost
	clear(w.names)
	w.lost = false
	return names, lost
}

// changed tells those who watch that a lock has changed. The mutex must be held.
func (b *Book) changed(name lockagent.Name) {
	for w := range b.watches {
		w.mu.Lock()
		if w.names[name] = struct{}{}; len(w.names) > maxChanges {
			w.lost = true
			clear(w.names)
		}
		w.mu.Unlock()
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

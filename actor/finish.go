package actor

import (
	"context"
	"errors"
	"sync"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/tied"
)

// finish is the end of a hold, and all that waits for it. The zero finish is that of a hold that is not over.
// It does not refer to the handle of the hold.
type finish struct {
	mu       sync.Mutex    // guards what follows
	ended    chan struct{} // made at the first call of Done
	contexts tied.Contexts // that end with the hold; none any more when they were told
	why      error         // why the hold ended, or nil

	warnings *warnings // nil until somebody asks
}

// Done implements [lockagent.Hold].
func (f *finish) Done() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended == nil {
		if f.why != nil {
			return over
		}
		f.ended = make(chan struct{})
	}
	return f.ended
}

// over is the channel of a hold that was over before anybody wanted to wait for that.
var over = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// EndWith implements [lockagent.Hold].
func (f *finish) EndWith(ctx context.Context, cancel context.CancelCauseFunc) {
	f.mu.Lock()
	why := f.why
	if why == nil {
		f.contexts.Add(ctx, cancel)
	}
	f.mu.Unlock()
	if why != nil {
		cancel(why)
	}
}

// over notes that the hold is over. It reports false if the hold was over before: then nothing changes.
func (f *finish) over(why error) (first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.why != nil {
		return false
	}
	f.why = why
	return true
}

// Cause implements [lockagent.Hold].
func (f *finish) Cause() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.why
}

// overError is the answer to a call about a hold that is over.
func (f *finish) overError() error {
	if cause := f.Cause(); !errors.Is(cause, lockagent.ErrReleased) {
		return cause
	}
	return lockagent.ErrNotHeld
}

// tell tells those who wait for the end, and reports whether there were any. The actor calls it once.
func (f *finish) tell(a *Agent) (some bool) {
	f.mu.Lock()
	ended, contexts, why := f.ended, f.contexts, f.why
	f.contexts = tied.Contexts{}
	f.mu.Unlock()
	if ended != nil {
		close(ended)
	}
	some = ended != nil || contexts.Any()
	returned := false
	defer a.survive("the parent of a grant's context", &returned)
	contexts.End(why)
	returned = true
	return some
}

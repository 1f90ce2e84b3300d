package actor

import (
	"errors"
	"sync"

	"github.com/lockagent/lockagent"
)

// finish is the end of a hold, and all that waits for it. The zero finish is that of a hold that is not over.
type finish struct {
	mu    sync.Mutex          // guards what follows
	ended chan struct{}       // made at the first call of done
	onEnd map[*onEnd]struct{} // called when the hold ends; does not change any more then
	why   error               // why the hold ended, or nil

	warnings *warnings // nil until somebody asks
}

// onEnd is a function to call at the end of a hold. It keeps the handle of the hold in use.
type onEnd struct {
	call func(cause error)
	of   lockagent.Hold
}

// done is closed when the hold is over. Somebody may wait at it who has nothing else, so it keeps the handle in use.
func (f *finish) done(of lockagent.Hold) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended == nil {
		ended := make(chan struct{})
		f.ended = ended
		if f.why != nil {
			close(ended)
		} else {
			f.register(&onEnd{call: func(error) { close(ended) }, of: of})
		}
	}
	return f.ended
}

// notify has a function called at the end. If the hold is over, it calls the function at once.
func (f *finish) notify(registered *onEnd) (stop func()) {
	f.mu.Lock()
	why := f.why
	if why == nil {
		f.register(registered)
		stop = func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.why == nil {
				delete(f.onEnd, registered)
			}
		}
	}
	f.mu.Unlock()
	if why != nil {
		registered.call(why)
		return func() {}
	}
	return stop
}

// register adds a function. mu must be held.
func (f *finish) register(registered *onEnd) {
	if f.onEnd == nil {
		f.onEnd = make(map[*onEnd]struct{})
	}
	f.onEnd[registered] = struct{}{}
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

// tell calls the functions that wait for the end, and reports whether there were any. The actor calls it once.
func (f *finish) tell(a *Agent) (some bool) {
	f.mu.Lock()
	waiting, why := f.onEnd, f.why
	f.mu.Unlock()
	if len(waiting) == 0 {
		return false
	}
	for w := range waiting {
		a.callback("Hold.OnEnd", func() { w.call(why) })
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onEnd = nil
	return true
}

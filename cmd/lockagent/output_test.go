package main

import (
	"sync"
	"testing"

	"github.com/lockagent/lockagent/internal/waittest"
)

// output is what a program has written so far. The zero output is usable.
type output struct {
	ended <-chan struct{} // closed when nothing more will come; nil if that is not known

	mu      sync.Mutex
	text    string        // guarded by mu
	changed chan struct{} // guarded by mu; closed when text changes; nil if nobody waits
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text += string(b)
	if o.changed != nil {
		close(o.changed)
		o.changed = nil
	}
	return len(b), nil
}

func (o *output) String() string {
	text, _ := o.read()
	return text
}

// read also returns what is closed when there is more.
func (o *output) read() (text string, more <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed == nil {
		o.changed = make(chan struct{})
	}
	return o.text, o.changed
}

// await returns when the text is as it should be.
func (o *output) await(t *testing.T, what string, ok func(text string) bool) {
	t.Helper()
	tooLate := waittest.Context(t).Done()
	for {
		text, more := o.read()
		if ok(text) {
			return
		}
		select {
		case <-more:
		case <-o.ended:
			if text, _ = o.read(); ok(text) { // its last words came together with the end
				return
			}
			t.Fatalf("it ended before this: %s\n%s", what, text)
		case <-tooLate:
			t.Fatalf("gave up waiting for this: %s\n%s", what, text)
		}
	}
}

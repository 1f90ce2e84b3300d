package lockagent_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

func TestWaitError(t *testing.T) {
	why, refused := errors.New("why"), errors.New("connection refused")
	for _, c := range []struct {
		err  lockagent.WaitError
		text string
		is   []error
		not  []error
	}{
		{
			err: lockagent.WaitError{
				Name: "door", Waited: 5 * time.Second, Holder: "ann", TimedOut: true, Err: lockagent.ErrTimeout,
			},
			text: `lockagent: wait for lock "door" timed out after 5s; it was held by "ann"`,
			is:   []error{lockagent.ErrTimeout, context.DeadlineExceeded},
			not:  []error{lockagent.ErrStoreUnavailable, lockagent.ErrGrace, context.Canceled},
		},
		{
			err: lockagent.WaitError{
				Name: "ready", Kind: lockagent.Latch, Waited: time.Second, TimedOut: true, Err: lockagent.ErrTimeout,
			},
			text: `lockagent: wait for latch "ready" timed out after 1s`,
			is:   []error{lockagent.ErrTimeout},
		},
		{
			err:  lockagent.WaitError{Name: "pool", Kind: lockagent.Semaphore, Waited: time.Second, Err: context.Canceled},
			text: `lockagent: wait for permits of "pool" was cancelled after 1s`,
			is:   []error{context.Canceled},
		},
		{
			err: lockagent.WaitError{
				Name: "door", Waited: time.Second, Silent: time.Second, TimedOut: true, Err: context.DeadlineExceeded,
			},
			text: `lockagent: wait for lock "door" timed out after 1s; the store has not answered for 1s`,
			is:   []error{lockagent.ErrTimeout, context.DeadlineExceeded, lockagent.ErrStoreUnavailable},
			not:  []error{context.Canceled},
		},
		{
			err: lockagent.WaitError{
				Name: "door", Waited: time.Second, Silent: time.Minute, Store: refused, Err: context.Canceled,
			},
			text: `lockagent: wait for lock "door" was cancelled after 1s; ` +
				`the store has not answered for 1m0s (connection refused)`,
			is:  []error{context.Canceled, lockagent.ErrStoreUnavailable, refused},
			not: []error{lockagent.ErrTimeout, context.DeadlineExceeded},
		},
		{
			err: lockagent.WaitError{
				Name: "door", Waited: time.Second, Holder: "ann", TimedOut: true, Err: lockagent.ErrTimeout,
				Store: &lockagent.GraceError{Name: "door", Left: 1200 * time.Millisecond},
			},
			text: `lockagent: wait for lock "door" timed out after 1s; it was held by "ann"; the store may have ` +
				`forgotten who holds it, and waits for up to 1.2s for the holders to come back`,
			is: []error{
				lockagent.ErrTimeout, context.DeadlineExceeded, lockagent.ErrGrace, lockagent.ErrStoreUnavailable,
			},
			not: []error{lockagent.ErrHeld},
		},
		{
			err:  lockagent.WaitError{Name: "door", Waited: time.Second, TimedOut: true, Err: why},
			text: `lockagent: wait for lock "door" timed out after 1s: why`,
			is:   []error{why, lockagent.ErrTimeout, context.DeadlineExceeded},
			not:  []error{refused, context.Canceled},
		},
		{
			err:  lockagent.WaitError{Name: "door", Waited: time.Second, Err: why},
			text: `lockagent: wait for lock "door" was cancelled after 1s: why`,
			is:   []error{why, context.Canceled},
			not:  []error{lockagent.ErrTimeout, context.DeadlineExceeded},
		},
	} {
		if got := c.err.Error(); got != c.text {
			t.Errorf("got  %s\nwant %s", got, c.text)
		}
		wrapped := fmt.Errorf("doing: %w", &c.err)
		for _, target := range c.is {
			if !errors.Is(wrapped, target) {
				t.Errorf("%v is not %v", wrapped, target)
			}
		}
		for _, target := range c.not {
			if errors.Is(wrapped, target) {
				t.Errorf("%v is %v", wrapped, target)
			}
		}
	}
}

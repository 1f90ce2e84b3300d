package storetest

import (
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent"
)

// Subscription is a [lockagent.Store.Subscribe] that a test can wait on.
type Subscription struct {
	// C gets a value at a wake-up, unless there is one in it. It is never closed.
	C <-chan struct{}
	// Passes gets what is passed on, unless it is full of passes that nobody received.
	// It is never closed. A pass is no wake-up.
	Passes <-chan lockagent.Pass

	t      TB
	name   lockagent.Name
	count  atomic.Int64
	cancel func()
}

// Subscribe subscribes to the wake-ups of a lock and waits until the
// subscription stands. The test cancels it, or closes the store. It may be called
// from any goroutine of the test.
func Subscribe(t TB, s lockagent.Store, name lockagent.Name) *Subscription {
	t.Helper()
	wakes, passes := make(chan struct{}, 1), make(chan lockagent.Pass, 16)
	sub := &Subscription{C: wakes, Passes: passes, t: t, name: name}
	sub.cancel = s.Subscribe(name, func(p *lockagent.Pass) {
		if p != nil {
			select {
			case passes <- *p:
			default:
			}
			return
		}
		sub.count.Add(1)
		select {
		case wakes <- struct{}{}:
		default:
		}
	})
	sub.Await()
	return sub
}

// Await waits for a wake-up that came since the last Await. It reports whether
// one came; if not, the test has failed.
func (sub *Subscription) Await() bool {
	sub.t.Helper()
	overdue := time.NewTimer(Patience)
	defer overdue.Stop()
	select {
	case <-sub.C:
		return true
	case <-overdue.C:
		sub.t.Errorf("no wake-up for lock %q within %v", sub.name, Patience)
		return false
	}
}

// AwaitPass waits for a pass. It reports whether one came; if not, the test has
// failed.
func (sub *Subscription) AwaitPass() (lockagent.Pass, bool) {
	sub.t.Helper()
	overdue := time.NewTimer(Patience)
	defer overdue.Stop()
	select {
	case p := <-sub.Passes:
		return p, true
	case <-overdue.C:
		sub.t.Errorf("no pass of lock %q within %v", sub.name, Patience)
		return lockagent.Pass{}, false
	}
}

// Count is how many wake-ups there were, the first one included.
func (sub *Subscription) Count() int { return int(sub.count.Load()) }

// Cancel ends the subscription. It is called once.
func (sub *Subscription) Cancel() { sub.cancel() }

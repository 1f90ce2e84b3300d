package storetest

import (
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent"
)

// Subscription is a [lockagent.Store.Subscribe] that a test can wait on.
type Subscription struct {
	// C gets a value at a wake-up, unless C has a value. It is never closed.
	C <-chan struct{}

	t      TB
	name   lockagent.Name
	count  atomic.Int64
	cancel func()
}

// Subscribe subscribes to the wake-ups of a plain lock, and waits until the subscription stands. The
// test calls Cancel, or closes the store. Any goroutine of the test may call Subscribe.
func Subscribe(t TB, s lockagent.Store, name lockagent.Name) *Subscription {
	t.Helper()
	return subscribe(t, s, name, lockagent.PlainLock)
}

func subscribe(t TB, s lockagent.Store, name lockagent.Name, kind lockagent.LockKind) *Subscription {
	t.Helper()
	sub, wake := newSubscription(t, name)
	sub.cancel = s.Subscribe(name, kind, wake)
	sub.Await()
	return sub
}

// newSubscription returns a subscription and its wake function.
func newSubscription(t TB, name lockagent.Name) (*Subscription, func()) {
	wakes := make(chan struct{}, 1)
	sub := &Subscription{C: wakes, t: t, name: name}
	return sub, func() {
		sub.count.Add(1)
		select {
		case wakes <- struct{}{}:
		default:
		}
	}
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

// Count is the number of wake-ups so far, the first one included.
func (sub *Subscription) Count() int { return int(sub.count.Load()) }

// Cancel ends the subscription. It is called once.
func (sub *Subscription) Cancel() { sub.cancel() }

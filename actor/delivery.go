package actor

import (
	"sync/atomic"

	"github.com/lockagent/lockagent"
)

// delivery brings the grant of a request to the caller who waits for it in Lock. It does what the
// channel of Acquire does. Most often the caller runs the actor itself, and finds its grant when
// it looks: a channel would be a good part of the cost of such a grant.
type delivery struct {
	state atomic.Int32
	grant lockagent.Grant // while the state is delivered
	wake  chan struct{}   // gets one value at the delivery, if the state was awaited
}

const (
	pending   int32 = iota
	awaited         // the caller listens to wake
	delivered       // from now on either the caller takes the grant or the actor takes it back
	received
	takenBack
)

// deliver is called once, by the actor.
func (d *delivery) deliver(g lockagent.Grant) {
	d.grant = g
	if d.state.Swap(delivered) == awaited {
		d.wake <- struct{}{}
	}
}

// over reports whether there is nothing to wait for any more.
func (d *delivery) over() bool { return d.state.Load() >= delivered }

// await has the caller listen to wake. It reports false if that is over already.
func (d *delivery) await(wake chan struct{}) bool {
	d.wake = wake
	return d.state.CompareAndSwap(pending, awaited)
}

// receive is called once by the caller, when there is nothing to wait for. It reports false if the
// actor took the grant back.
func (d *delivery) receive() (lockagent.Grant, bool) {
	if !d.state.CompareAndSwap(delivered, received) {
		return lockagent.Grant{}, false
	}
	g := d.grant
	d.grant = lockagent.Grant{} // the actor keeps the delivery, and must not keep the handle, see [request.hold]
	return g, true
}

// lies reports whether the grant was delivered, and nobody has taken it.
func (d *delivery) lies() bool { return d.state.Load() == delivered }

// takeBack reports whether the actor has the grant, and not the caller.
func (d *delivery) takeBack() bool { return d.state.CompareAndSwap(delivered, takenBack) }

// waker returns a channel for [delivery.await]. The channels come from a pool, and are empty there. Each agent
// has a pool of its own, because a channel must not leave its synctest bubble.
func (a *Agent) waker() chan struct{} {
	if wake, ok := a.wakers.Get().(chan struct{}); ok {
		return wake
	}
	return make(chan struct{}, 1)
}

package actor

import "sync/atomic"

// delivery brings one value to the caller who waits for it: the outcome of a request, or the answer to
// a release. It does what the channel of Acquire does. Most often the caller runs the actor itself,
// and finds the value when it looks: a channel would be a good part of the cost of a short hold.
type delivery[T any] struct {
	state atomic.Int32
	value T             // while the state is delivered
	wake  chan struct{} // gets one value at the delivery, if the state was awaited
}

const (
	pending   int32 = iota
	awaited         // the caller listens to wake
	delivered       // from now on either the caller takes the value or the actor takes it back
	received
	takenBack
)

// deliver is called once, by the actor.
func (d *delivery[T]) deliver(v T) {
	d.value = v
	if d.state.Swap(delivered) == awaited {
		d.wake <- struct{}{}
	}
}

// over reports whether there is nothing to wait for any more.
func (d *delivery[T]) over() bool { return d.state.Load() >= delivered }

// await has the caller listen to wake. It reports false if that is over already.
func (d *delivery[T]) await(wake chan struct{}) bool {
	d.wake = wake
	return d.state.CompareAndSwap(pending, awaited)
}

// receive is called once by the caller, when there is nothing to wait for. It reports false if the
// actor took the value back.
func (d *delivery[T]) receive() (v T, ok bool) {
	if !d.state.CompareAndSwap(delivered, received) {
		return v, false
	}
	v, d.value = d.value, v // the actor keeps the delivery, and must not keep the handle of a hold, see [request.hold]
	return v, true
}

// lies reports whether the value was delivered, and nobody has taken it.
func (d *delivery[T]) lies() bool { return d.state.Load() == delivered }

// takeBack reports whether the actor has the value, and not the caller.
func (d *delivery[T]) takeBack() bool {
	if !d.state.CompareAndSwap(delivered, takenBack) {
		return false
	}
	var none T
	d.value = none
	return true
}

// waker returns a channel for [delivery.await]. The channels come from a pool, and are empty there. Each agent
// has a pool of its own, because a channel must not leave its synctest bubble.
func (a *Agent) waker() chan struct{} {
	if wake, ok := a.wakers.Get().(chan struct{}); ok {
		return wake
	}
	return make(chan struct{}, 1)
}

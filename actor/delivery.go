package actor

import "sync/atomic"

// delivery brings one value to the caller who waits for it: the outcome of a request, or the answer to
// a release. The caller always receives it. Most often the caller runs the actor itself,
// and finds the value when it looks: a channel would be a good part of the cost of a short hold.
type delivery[T any] struct {
	state atomic.Int32
	value T             // while the state is delivered
	wake  chan struct{} // gets one value at the delivery, if the state was awaited
}

const (
	pending int32 = iota
	awaited       // the caller listens to wake
	delivered
	received
)

// deliver is called once, by the actor.
func (d *delivery[T]) deliver(v T) {
	d.value = v
	if d.state.Swap(delivered) == awaited {
		d.wake <- struct{}{}
	}
}

// over reports whether the value was delivered.
func (d *delivery[T]) over() bool { return d.state.Load() >= delivered }

// await has the caller listen to wake. It reports false if the value was delivered already.
func (d *delivery[T]) await(wake chan struct{}) bool {
	d.wake = wake
	return d.state.CompareAndSwap(pending, awaited)
}

// receive is called once by the caller, after the delivery.
func (d *delivery[T]) receive() (v T) {
	v, d.value = d.value, v // the actor keeps the delivery, and must not keep the handle of a hold, see [request.hold]
	d.state.Store(received)
	return v
}

// isReceived reports whether the caller has the value.
func (d *delivery[T]) isReceived() bool { return d.state.Load() == received }

// waker returns a channel for [delivery.await]. The channels come from a pool, and are empty there. Each agent
// has a pool of its own, because a channel must not leave its synctest bubble.
func (a *Agent) waker() chan struct{} {
	if wake, ok := a.wakers.Get().(chan struct{}); ok {
		return wake
	}
	return make(chan struct{}, 1)
}

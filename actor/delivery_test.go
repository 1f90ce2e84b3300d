package actor

import (
	"sync"
	"sync/atomic"
	"testing"
)

// The actor delivers while the caller begins to wait: the caller always learns of it, and by the channel only if it listens.
func TestDeliveryReachesItsCaller(t *testing.T) {
	listened := 0
	for i := range 5000 {
		d, wake := new(delivery[outcome]), make(chan struct{}, 1)
		var both sync.WaitGroup
		both.Go(func() { d.deliver(outcome{count: i + 1}) })
		both.Go(func() {
			if d.await(wake) {
				listened++
				<-wake
			}
			if !d.over() {
				t.Error("it is not over")
			}
			if o, ok := d.receive(); !ok || o.count != i+1 {
				t.Errorf("received %v, %v", o.count, ok)
			}
		})
		both.Wait()
		if len(wake) != 0 || d.lies() || d.takeBack() || d.value != (outcome{}) {
			t.Fatal("something is left")
		}
	}
	t.Logf("%d listened", listened)
}

// The actor takes the grant back while the caller receives it: one of them has it, and never both.
func TestDeliveryIsReceivedOrTakenBack(t *testing.T) {
	mine := 0
	for range 5000 {
		d := new(delivery[outcome])
		d.deliver(outcome{count: 7})
		var o outcome
		var received, back bool
		var there atomic.Int32
		meet := func() {
			for there.Add(1); there.Load() < 2; {
				yieldNow()
			}
		}
		var both sync.WaitGroup
		both.Go(func() { meet(); o, received = d.receive() })
		both.Go(func() { meet(); back = d.takeBack() })
		both.Wait()
		if received == back || received != (o.count == 7) || d.lies() || !d.over() || d.value != (outcome{}) {
			t.Fatalf("received %v %v, taken back %v, left %v", received, o.count, back, d.value)
		}
		if received {
			mine++
		}
	}
	t.Logf("%d of 5000 received", mine)
}

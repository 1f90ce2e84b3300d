package actor

import (
	"sync"
	"testing"
)

// The actor delivers while the caller begins to wait: the caller always learns of it, and by the channel only if it
// listens.
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
			if !d.isDelivered() {
				t.Error("it is not over")
			}
			if o := d.receive(); o.count != i+1 {
				t.Errorf("received %v", o.count)
			}
		})
		both.Wait()
		if len(wake) != 0 || d.value != (outcome{}) {
			t.Fatal("something is left")
		}
	}
	t.Logf("%d listened", listened)
}

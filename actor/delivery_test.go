package actor

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lockagent/lockagent"
)

// The actor delivers while the caller begins to wait: the caller always learns of it, and by the channel only if it listens.
func TestDeliveryReachesItsCaller(t *testing.T) {
	listened := 0
	for i := range 5000 {
		d, wake := new(delivery[lockagent.Grant]), make(chan struct{}, 1)
		var both sync.WaitGroup
		both.Go(func() { d.deliver(lockagent.NewGrant("door", "ann", lockagent.Token(i+1), 1, nil)) })
		both.Go(func() {
			if d.await(wake) {
				listened++
				<-wake
			}
			if !d.over() {
				t.Error("it is not over")
			}
			if g, ok := d.receive(); !ok || g.Token() != lockagent.Token(i+1) {
				t.Errorf("received %v, %v", g.Token(), ok)
			}
		})
		both.Wait()
		if len(wake) != 0 || d.lies() || d.takeBack() || d.value != (lockagent.Grant{}) {
			t.Fatal("something is left")
		}
	}
	t.Logf("%d listened", listened)
}

// The actor takes the grant back while the caller receives it: one of them has it, and never both.
func TestDeliveryIsReceivedOrTakenBack(t *testing.T) {
	mine := 0
	for range 5000 {
		d := new(delivery[lockagent.Grant])
		d.deliver(lockagent.NewGrant("door", "ann", 7, 1, nil))
		var g lockagent.Grant
		var received, back bool
		var there atomic.Int32
		meet := func() {
			for there.Add(1); there.Load() < 2; {
				yieldNow()
			}
		}
		var both sync.WaitGroup
		both.Go(func() { meet(); g, received = d.receive() })
		both.Go(func() { meet(); back = d.takeBack() })
		both.Wait()
		if received == back || received != (g.Token() == 7) || d.lies() || !d.over() {
			t.Fatalf("received %v %v, taken back %v", received, g.Token(), back)
		}
		if received {
			mine++
		}
	}
	t.Logf("%d of 5000 received", mine)
}

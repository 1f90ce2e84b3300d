package channelapi_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent/channelapi"
)

// The holds of a session have one lease. A re-entry begins it anew, and so does a release that leaves a hold.
func TestLeaseOfASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openSession(t, open(t), "alice").Lock(name, channelapi.Lease(4*time.Second))
		outer := hold(t, l)
		time.Sleep(2 * time.Second)
		inner := hold(t, l)
		time.Sleep(3 * time.Second)
		if !outer.Held() || !inner.Held() {
			t.Fatalf("outer held: %t, inner held: %t", outer.Held(), inner.Held())
		}
		unlock(t, inner)
		time.Sleep(3 * time.Second)
		if !outer.Held() {
			t.Fatal("the release did not begin the lease anew")
		}
		time.Sleep(time.Second)
		wantLost(t, outer.Cause(), outer, channelapi.LostExpired)
	})
}

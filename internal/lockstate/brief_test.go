package lockstate

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// Whoever has the lock again and again, for a moment, begins with the lease of a pass. So it costs others no more if
// its process dies. A hold that lasts makes the lease long.
func TestKeptLeasesBeginBriefly(t *testing.T) {
	holds := func(r *rig, d time.Duration) {
		r.acquire("bob")
		r.granted()
		r.passLate(d)
		r.release("bob")
		r.returned(0)
	}
	for name, tt := range map[string]struct {
		before func(*rig)
		lease  time.Duration // of the request; 0 is kept
		want   time.Duration
	}{
		"the first":             {func(*rig) {}, 0, 30 * time.Second},
		"after another":         {func(r *rig) { holds(r, 0) }, 0, lockagent.PassLease},
		"after a while":         {func(r *rig) { holds(r, 0); r.pass(2 * time.Second) }, 0, 30 * time.Second},
		"after a hold that was": {func(r *rig) { holds(r, 2*time.Second) }, 0, 30 * time.Second},
		"fixed":                 {func(r *rig) { holds(r, 0) }, time.Minute, time.Minute},
		"after a request that gave up": {func(r *rig) {
			r.acquire("bob")
			r.attemptFails(errStore)
			r.cancel("bob")
			r.returned(0)
		}, 0, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			tt.before(r)
			r.skip()
			r.request(Request{Owner: "ann", Lease: tt.lease})
			if got := r.last(Attempted).AskedLease; got != tt.want {
				t.Fatalf("asks for %v, want %v", got, tt.want)
			}
			r.granted()
			if r.pass(time.Second); tt.want == lockagent.PassLease && r.last(Renewing).AskedLease != 30*time.Second {
				t.Error("a hold that lasts has no long lease")
			}
		})
	}
}

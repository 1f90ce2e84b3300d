package actor

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// Whoever waits in vain in a grace period, or does not wait, learns why. Afterwards the lock is granted.
func TestARequestInAGracePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a := start(t, Config{Store: store})
		grace := &lockagent.GraceError{Name: "door", Left: 20 * time.Second}
		store.SetOutage(grace)
		try := a.Lock(background, "door", Request{Owner: "ann", Try: true})
		if told, ok := errors.AsType[*lockagent.GraceError](try.Err()); !ok || *told != *grace {
			t.Errorf("a try: %v", try.Err())
		}
		late := waitError(t, a.Lock(background, "door", Request{Owner: "ann", Wait: 5 * time.Second}).Err())
		if !errors.Is(late.Store, grace) || late.Silent != 0 || late.Waited != 5*time.Second || !late.TimedOut {
			t.Errorf("a wait: %#v", late)
		}
		waits := locking(background, a, "door", who("bob"))
		time.Sleep(time.Minute)
		silent(t, "bob", waits)
		store.SetOutage(nil)
		released(t, granted(t, waits))
	})
}

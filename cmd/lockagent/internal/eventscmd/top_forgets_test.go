package eventscmd

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/logtest"
	"github.com/lockagent/lockagent/events"
)

// The memory for locks is bounded: those that were waited for the least go first, and the list says so.
func TestEventsTopForgets(t *testing.T) {
	list := newTopList(events.Filter{}, time.Time{}, logtest.Later, 1)
	for i := range 2*mostLoads + 1 {
		lock := lockagent.Name("lock/" + time.Duration(i).String())
		list.addWait(waitRow{Lock: lock, BecameOf: "granted", waited: time.Duration(i+1) * time.Microsecond})
	}
	v := list.view(&cli.TimeRange{})
	if len(list.loads) != mostLoads+1 || !v.Forgot || v.Locks[0].WaitedUS != 2*mostLoads+1 ||
		v.Waits[0].WaitedUS != 2*mostLoads+1 {
		t.Errorf("%d locks, of which the first is %+v; forgot is %v", len(list.loads), v.Locks[0], v.Forgot)
	}
}

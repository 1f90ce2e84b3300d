package script

import (
	"slices"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

// A renewal says who watches only if somebody does.
func TestARenewalSaysWhoWatches(t *testing.T) {
	for kind, watches := range map[lockagent.LockKind]string{
		lockagent.PlainLock: "single", lockagent.FairLock: "fair", lockagent.SpinLock: "",
	} {
		first, second := renewal("a", 1), renewal("b", 1)
		first.Kind, second.Kind = kind, kind
		var c Call
		Single.Renew(&c, []lockagent.RenewRequest{first, second})
		if len(c.Args) != 4 {
			t.Errorf("%s: nobody watches, and the arguments are %q", kind, c.Args)
		}
		second.Watched = true
		Single.Renew(&c, []lockagent.RenewRequest{first, second})
		if len(c.Args) != 6 || !slices.Equal([]string{c.Args[2], c.Args[5]}, []string{"", watches}) {
			t.Errorf("%s: the second one watches, and the arguments are %q", kind, c.Args)
		}
	}
}

// Nobody can count who listens where messages go to all nodes. So nobody is known to wait for a lock.
func TestNobodyIsKnownToWaitWithoutQueues(t *testing.T) {
	s := start(t)
	s.room = Unqueued
	s.grant(wish("orders", agentA, 1))
	s.listen(Channel("orders"))
	req := renewal("orders", 1)
	req.Watched = true
	if reply := s.renew(req); !reply.Held || reply.Contested {
		t.Errorf("renewed: %+v", reply)
	}
}

// renewal is a request to renew a tenure of agent A.
func renewal(name lockagent.Name, number uint64) lockagent.RenewRequest {
	return lockagent.RenewRequest{Name: name, Tenure: tenure(agentA, number), Lease: time.Minute}
}

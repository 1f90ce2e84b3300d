package plan

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

func TestChange(t *testing.T) {
	p, was := New(1), New(1)
	if err := p.Change("lease=90s  longest=2s workers=5 locks=fair,permits"); err != nil {
		t.Fatal(err)
	}
	if p.Lease != 90*time.Second || p.Longest != 2*time.Second || p.Workers != 5 || p.Patience != was.Patience {
		t.Errorf("the plan is now %+v", p)
	}
	want := []Lock{{"fair", lockagent.FairLock, 0}, {"permits", lockagent.Permits, 3}}
	if fmt.Sprint(p.Locks) != fmt.Sprint(want) {
		t.Errorf("the locks are now %v", p.Locks)
	}
	for _, text := range []string{"lease", "lease=soon", "work=0s", "workers=9", "workers=x", "locks=door", "mood=bad"} {
		if p := New(1); p.Change(text) == nil {
			t.Errorf("%q made the plan %+v", text, p)
		}
	}
}

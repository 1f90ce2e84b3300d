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
	if err := p.Change("locks=plain,fair outsiders=2"); err != nil || p.Outsiders != 2 || p.Check() != nil {
		t.Errorf("the plan is now %+v, %v", p, err)
	}
	if err := p.Change("locks=plain"); err != nil || p.Outsiders != 0 {
		t.Errorf("the plan is now %+v, %v", p, err)
	}
	if err := p.Change("drift=-500"); err != nil || p.Drift != -500 {
		t.Errorf("the plan is now %+v, %v", p, err)
	}
	for _, text := range []string{
		"lease", "drift=501", "drift=much", "outsiders=9", "outsiders=-1", "lease=soon", "work=0s", "workers=9", "workers=x",
		"locks=door", "mood=bad",
	} {
		if p := New(1); p.Change(text) == nil {
			t.Errorf("%q made the plan %+v", text, p)
		}
	}
}

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/simulate/plan"
)

// seeds is how many seeds are run: each takes some three seconds of one processor. make simulate runs more.
func seeds() int {
	if os.Getenv("CI") != "" {
		return 50
	}
	return 20
}

var theMachine = sync.OnceValues(func() (*machine, error) { return newMachine(context.Background()) })

func newSimulation(t *testing.T, out *bytes.Buffer) *simulation {
	t.Helper()
	m, err := theMachine()
	if err != nil {
		t.Fatal(err)
	}
	return &simulation{machine: m, out: out}
}

func runOf(t *testing.T, p plan.Plan) *outcome {
	t.Helper()
	o, err := newSimulation(t, nil).machine.run(t.Context(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestSeeds(t *testing.T) {
	var out bytes.Buffer
	err := newSimulation(t, &out).many(t.Context(), 1, seeds(), runtime.GOMAXPROCS(0))
	t.Logf("%s", out.String())
	if err != nil {
		t.Error(err)
	}
}

// Every grant is at the same nanosecond again, and so is every event. Another seed is another run.
func TestSameSeedSameRun(t *testing.T) {
	first, again, other := runOf(t, plan.New(7)), runOf(t, plan.New(7)), plan.New(7)
	other.Seed = 8 // with the same locks and the same faults
	if len(first.holds) == 0 || !reflect.DeepEqual(first, again) {
		t.Errorf("one seed gave two runs, with %d and %d holds", len(first.holds), len(again.holds))
	}
	if order(first) == order(runOf(t, other)) {
		t.Error("two seeds gave one order of grants")
	}
}

// order is who had which lock, in order.
func order(o *outcome) string {
	var b strings.Builder
	for _, h := range o.holds {
		fmt.Fprintln(&b, h.Lock, h.Client)
	}
	return b.String()
}

// Another process goes on from the journal of an agent, and its clients keep their holds.
func TestHoldsGoOnFromAJournal(t *testing.T) {
	faults, err := plan.Parse("3s resume agent=0 for=300ms, 5s resume agent=0 for=300ms, 7s resume agent=0 for=300ms")
	if err != nil {
		t.Fatal(err)
	}
	goneOn := 0
	for seed := uint64(1); goneOn == 0 && seed < 10; seed++ {
		p := plan.New(seed)
		p.Faults = faults
		o := runOf(t, p)
		if v := judge(o); len(v.wrong) > 0 {
			t.Errorf("seed %d: wrong: %q", seed, v.wrong)
		}
		for _, h := range o.holds {
			for _, f := range faults {
				if plan.AgentOf(h.Client) == f.Agent && h.Granted < f.At && h.Ending > f.End() && !h.Lost {
					goneOn++
				}
			}
		}
	}
	if goneOn == 0 {
		t.Error("no hold went on")
	}
}

// Without grace periods a store that forgets has two holders of a lock: its holder does not hear of it, and somebody
// else asks. Each judge sees it.
func TestOverlapIsSeen(t *testing.T) {
	faults, err := plan.Parse("3s deaf agent=0 for=1s, 3s deaf agent=1 for=1s, 3.05s flush")
	if err != nil {
		t.Fatal(err)
	}
	missing := []string{plan.Overlap + " of", "audit:", "history:"}
	for seed := uint64(1); len(missing) > 0 && seed < 20; seed++ {
		p := plan.New(seed)
		p.Locks = []plan.Lock{{Name: "one", Kind: lockagent.PlainLock}}
		p.Faults, p.NoGrace = faults, true
		text := strings.Join(judge(runOf(t, p)).wrong, "\n")
		missing = slices.DeleteFunc(missing, func(of string) bool { return strings.Contains(text, of) })
	}
	if len(missing) > 0 {
		t.Errorf("nobody saw %q", missing)
	}
}

// A program that uses Redisson's scripts takes turns with the agents, also when connections break and processes die.
// When the store forgets, the two sides have the lock at the same time: then a fault explains that.
func TestOutsidersAndAgents(t *testing.T) {
	run := func(seed uint64, change, faults string) (theirs int, v verdict) {
		p, err := (&settings{seed: seed, change: "locks=plain,fair outsiders=2 " + change, faults: &faults}).plan()
		if err != nil {
			t.Fatal(err)
		}
		o := runOf(t, p)
		for _, h := range o.holds {
			if p.IsOutsider(h.Client) && !h.Lost {
				theirs++
			}
		}
		if v = judge(o); len(v.wrong) > 0 {
			t.Errorf("seed %d: wrong: %q", seed, v.wrong)
		}
		return theirs, v
	}
	const breaks = "2s cut agent=3, 4s kill agent=3 for=300ms, 5s suspend agent=3 for=2s, 7s deaf agent=3 for=1s, 8s " +
		"cut agent=0"
	if theirs, v := run(1, "pause=50ms longest=200ms", breaks); theirs < 10 || len(v.excused) > 0 {
		t.Errorf("%d holds, and %q are explained by a fault", theirs, v.excused)
	}
	const forgets = "3s flush, 5s failover for=50ms lag=500ms, 7s restart for=100ms, 9s flush"
	for seed := uint64(1); ; seed++ {
		if _, v := run(seed, "longest=3s pause=100ms", forgets); len(v.excused) > 0 {
			break
		}
		if seed == 10 {
			t.Fatal("the two sides never have the lock at the same time")
		}
	}
}

// The judges of what a client sees, on outcomes that are made up.
func TestJudges(t *testing.T) {
	hold := func(client int, from, to time.Duration) plan.Hold {
		return plan.Hold{Lock: "one", Client: client, Permits: 1, Asked: from - 1, Granted: from, Ending: to, Ended: to + 1}
	}
	flush, split := plan.Fault{At: 2 * time.Second, Kind: plan.Flush}, plan.Fault{At: 2 * time.Second, Kind: plan.Split}
	const s = time.Second
	overlap := []plan.Hold{hold(1, s, 4*s), hold(2, 3*s, 5*s)}
	beside := []plan.Hold{hold(1, s, 4*s), hold(plan.ClientOf(3, 0, 0), 3*s, 5*s)}
	for name, test := range map[string]struct {
		kind   lockagent.LockKind
		holds  []plan.Hold
		faults []plan.Fault
		breach string
		beside bool // an outsider takes part
		wrong  bool
	}{
		"one after the other": {holds: []plan.Hold{hold(1, s, 2*s), hold(2, 3*s, 4*s)}},
		"two at a time":       {holds: overlap, wrong: true},
		"the store forgot":    {holds: overlap, faults: []plan.Fault{flush}, wrong: true},
		"two servers":         {holds: overlap, faults: []plan.Fault{split}},
		"permits suffice":     {kind: lockagent.Permits, holds: overlap},
		"permits do not": {
			kind: lockagent.Permits, holds: append([]plan.Hold{hold(3, 2*s, 5*s)}, overlap...), wrong: true,
		},
		"overlap":               {breach: plan.Overlap, wrong: true},
		"overlap after a flush": {breach: plan.Overlap, faults: []plan.Fault{flush}, wrong: true},
		"overlap after a split": {breach: plan.Overlap, faults: []plan.Fault{split}},
		"a token fell":          {breach: plan.Fell, wrong: true},
		"stuck after a split":   {breach: plan.Stuck, faults: []plan.Fault{split}, wrong: true},

		"beside an outsider":                   {holds: beside, beside: true, wrong: true},
		"beside an outsider after a flush":     {holds: beside, beside: true, faults: []plan.Fault{flush}},
		"beside an agent, an outsider is near": {holds: overlap, beside: true, faults: []plan.Fault{flush}, wrong: true},
		"overlap with an outsider":             {breach: plan.Overlap, beside: true, wrong: true},
		"the same after a flush":               {breach: plan.Overlap, beside: true, faults: []plan.Fault{flush}},
	} {
		t.Run(name, func(t *testing.T) {
			o := &outcome{holds: test.holds, plan: plan.Plan{
				Agents: 3, Lease: s, Faults: test.faults, Locks: []plan.Lock{{Name: "one", Kind: test.kind, Permits: 2}},
			}}
			if test.beside {
				o.plan.Outsiders, o.plan.Locks[0].Kind = 1, lockagent.PlainLock
			}
			if test.breach != "" {
				o.breaches = []plan.Breach{{What: test.breach, Lock: "one", Outsider: test.beside, From: s, At: 3 * s}}
			}
			if v := judge(o); len(v.wrong) > 0 != test.wrong {
				t.Errorf("the judges find wrong: %q", v.wrong)
			}
		})
	}
}

// What does not matter goes from the script of faults.
func TestShrink(t *testing.T) {
	faults, err := plan.Parse(
		"1s cut agent=1, 2s stall agent=0 for=3.2s, 2.5s apart agent=2 for=1s, 3s flush, 4s restart for=1s",
	)
	if err != nil {
		t.Fatal(err)
	}
	p, err := shrink(plan.Plan{Faults: faults}, func(p plan.Plan) (bool, error) {
		stalls := slices.ContainsFunc(
			p.Faults, func(f plan.Fault) bool { return f.Kind == plan.Stall && f.End() > 3*time.Second },
		)
		return stalls && slices.ContainsFunc(p.Faults, func(f plan.Fault) bool { return f.Kind == plan.Flush }), nil
	})
	if got := fmt.Sprint(p.Faults); err != nil || got != "[2s stall agent=0 for=1.6s 3s flush]" {
		t.Errorf("the shorter script is %s, %v", got, err)
	}
}

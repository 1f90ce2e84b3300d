package storetest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
)

// Harness is what a case needs from the store that is tested. Each case has one
// of its own. The suite closes all stores, some of them twice.
type Harness struct {
	// Store is the store under test: open, and empty.
	Store lockagent.Store

	// Open opens another store on the same data, as a second agent has it.
	Open func(t testing.TB) lockagent.Store

	// PlantHolder makes a lock held by another program, which writes holders in a
	// way of its own, with a hold count, for a lease, or without end if lease is 0.
	// Nil if no other program can use the data: then the cases about that are
	// skipped.
	PlantHolder func(t testing.TB, name lockagent.Name, holder string, count int, lease time.Duration)

	// PlantValue puts something that is no lock under the name of a lock. Nil if
	// that cannot be.
	PlantValue func(t testing.TB, name lockagent.Name)

	// PlantForeignHash puts something there that is made of what locks are made of, and is
	// none, such as a hash of settings in Redis. Nil if that cannot be.
	PlantForeignHash func(t testing.TB, name lockagent.Name)

	// PlantOutsider has another program wait for a lock that knows nothing of queues. Its
	// subscription stands when PlantOutsider returns, and ends with the case. Nil if no other
	// program can.
	PlantOutsider func(t testing.TB, name lockagent.Name, wake func())

	// NoQueue says that the store has no queue, so it never passes a lock on, and has no
	// turns for outsiders.
	NoQueue bool

	// Reset makes the data disappear, as when a server is emptied or restarted
	// empty. Nil if that cannot be.
	Reset func(t testing.TB)

	// StepClock sets the clock of the store forward, or back if d is negative. Nil if that
	// cannot be.
	StepClock func(t testing.TB, d time.Duration)

	used bool // Store has its agent
}

// Run tests that a store fulfils its contract. The cases run one after the
// other; open is called at the start of each.
func Run(t *testing.T, open func(t *testing.T) *Harness) {
	run(t, func(t *testing.T, c clause) { c.check(t, open) })
}

// RunInBubble is [Run] with each case in a bubble of testing/synctest, where time
// passes only when all goroutines wait. open is called inside of the bubble.
// Stores that talk to a server cannot run there.
func RunInBubble(t *testing.T, open func(t *testing.T) *Harness) {
	run(t, func(t *testing.T, c clause) {
		synctest.Test(t, func(t *testing.T) { c.check(t, open) })
	})
}

func run(t *testing.T, check func(t *testing.T, c clause)) {
	for _, chapter := range contract {
		t.Run(chapter.title, func(t *testing.T) {
			for _, c := range chapter.clauses {
				t.Run(c.name, func(t *testing.T) { check(t, c) })
			}
		})
	}
}

// contract is the whole suite.
var contract = []struct {
	title   string
	clauses []clause
}{
	{"Acquire", acquireClauses},
	{"Tenure", tenureClauses},
	{"Release", releaseClauses},
	{"Renew", renewClauses},
	{"Lease", leaseClauses},
	{"Token", tokenClauses},
	{"Break", breakClauses},
	{"Inspect", inspectClauses},
	{"Subscribe", subscribeClauses},
	{"Listen", listenClauses},
	{"Queue", queueClauses},
	{"Pass", passClauses},
	{"Outsiders", outsiderClauses},
	{"Foreign", foreignClauses},
	{"BadRequest", badRequestClauses},
	{"Reset", resetClauses},
	{"Concurrency", concurrencyClauses},
	{"Close", closeClauses},
}

// clause is one sentence of the contract and its proof.
type clause struct {
	name  string // what the case shows, in a few words
	says  string // the sentence, as the lockagent package has it
	prove func(t *testing.T, h *Harness)
}

func (c clause) check(t *testing.T, open func(t *testing.T) *Harness) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the contract says: %s", c.says)
		}
	})
	h := open(t)
	t.Cleanup(func() { _ = h.Store.Close() })
	c.prove(t, h)
}

// agent returns another agent, with a store of its own.
func (h *Harness) agent(t *testing.T) *party {
	t.Helper()
	store := h.Store
	if h.used {
		store = h.Open(t)
		t.Cleanup(func() { _ = store.Close() })
	}
	h.used = true
	id := lockagent.NewAgentID()
	return &party{t: t, store: store, id: id, messages: Listen(t, store, id)}
}

func (h *Harness) agents(t *testing.T, n int) []*party {
	t.Helper()
	all := make([]*party, n)
	for i := range all {
		all[i] = h.agent(t)
	}
	return all
}

func (h *Harness) pair(t *testing.T) (one, two *party) {
	t.Helper()
	return h.agent(t), h.agent(t)
}

package storetest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
)

// Harness gives a case what it needs of the store under test. Each case has a Harness of its
// own. The suite closes all stores, some of them twice.
type Harness struct {
	// Store is the store under test: open, and empty.
	Store lockagent.Store

	// Open opens another store on the same data, for another agent.
	Open func(t testing.TB) lockagent.Store

	// PlantHolder makes a lock held by another program. holder is the text that this program
	// writes, and count its hold count. The lease has no end if lease is 0. Nil if no other
	// program can use the data.
	PlantHolder func(t testing.TB, name lockagent.Name, holder string, count int, lease time.Duration)

	// PlantValue puts a value that is no lock under the name of a lock. Nil if the store
	// cannot have one.
	PlantValue func(t testing.TB, name lockagent.Name)

	// PlantForeignHash puts a value that is no lock, but has the data type of locks, under the
	// name of a lock: for example a hash of settings in Redis. Nil if the store cannot have
	// one.
	PlantForeignHash func(t testing.TB, name lockagent.Name)

	// PlantOutsider makes an outsider wait for a lock. Its subscription stands when
	// PlantOutsider returns, and ends with the case. Nil if there are no outsiders.
	PlantOutsider func(t testing.TB, name lockagent.Name, wake func())

	// NoQueue says that the store has no queue. So it never passes a lock, and has no turns
	// for outsiders.
	NoQueue bool

	// Reset deletes all data, like a server that is emptied or restarted empty. Nil if the
	// data cannot disappear.
	Reset func(t testing.TB)

	// StepClock sets the clock of the store forward, or back if d is negative. Nil if that
	// cannot be.
	StepClock func(t testing.TB, d time.Duration)

	used bool // Store has its agent
}

// Run tests that a store fulfils its contract. The cases run one after the other. Each case
// begins with a call of open.
func Run(t *testing.T, open func(t *testing.T) *Harness) {
	run(t, func(t *testing.T, c clause) { c.check(t, open) })
}

// RunInBubble is [Run] with each case, and its call of open, in a bubble of testing/synctest.
// Time in a bubble passes only when all goroutines wait. A store that talks to a server
// cannot run there.
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
	{"ReadWrite", readWriteClauses},
	{"ReadWriteQueue", readWriteQueueClauses},
	{"Foreign", foreignClauses},
	{"BadRequest", badRequestClauses},
	{"Reset", resetClauses},
	{"Identity", identityClauses},
	{"Time", timeClauses},
	{"Concurrency", concurrencyClauses},
	{"Close", closeClauses},
}

// clause is one sentence of the contract and its proof.
type clause struct {
	name  string // what the case shows, in a few words
	says  string // the sentence, from the documentation of package lockagent
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

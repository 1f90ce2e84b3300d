package storetest

import (
	"iter"
	"slices"
	"strings"
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

	// PlantHolder makes a lock of a kind held by another program. holder is the text that this
	// program writes, and count its hold count. The lease has no end if lease is 0. Nil if no other
	// program can use the data.
	PlantHolder func(
		t testing.TB, name lockagent.Name, kind lockagent.LockKind, holder string, count int, lease time.Duration,
	)

	// PlantToken makes a token of a fenced lock the greatest that another program has had. Nil if no
	// other program can use the data.
	PlantToken func(t testing.TB, name lockagent.Name, token lockagent.Token)

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

	// PlantPermit has another program take a free permit of a semaphore of the kind
	// [lockagent.Permits]. The lease has no end if lease is 0. Nil if no other program can use the
	// data.
	PlantPermit func(t testing.TB, name lockagent.Name, id lockagent.PermitID, lease time.Duration)

	// PlantWaiter gives another program the last place at a fair lock, for some time. The program is
	// told when the lock is free for it. Nil if no other program can use the data.
	PlantWaiter func(t testing.TB, name lockagent.Name, wait time.Duration, told func())

	// NoIncarnation says that the store cannot tell its incarnation, as when it has several servers.
	NoIncarnation bool

	// Reset deletes all data, like a server that is emptied or restarted empty. Nil if the
	// data cannot disappear.
	Reset func(t testing.TB)

	// GracePeriods says that each incarnation of the store begins with a grace period, but for the one in which the
	// case begins. Then the suite skips the cases in which a store that was reset goes on at once. Otherwise it skips
	// those of the chapters of Grace.
	GracePeriods bool

	// StepClock sets the clock of the store forward, or back if d is negative. Nil if that
	// cannot be.
	StepClock func(t testing.TB, d time.Duration)

	kind  lockagent.LockKind   // of the case
	kinds []lockagent.LockKind // that the store has
	used  bool                 // Store has its agent
}

// Run tests that a store fulfils its contract. kinds are the kinds of locks that the store has. Each
// case begins with a call of open. The cases run one after the other, unless open calls t.Parallel:
// then they run at the same time, and each needs data of its own.
//
// only selects the cases whose names begin with one of these texts, as "Pass/", "fair/Fair/" or
// "readwrite/Lease/each has a lease of its own". Without any, all cases run. A text that selects
// nothing is an error.
func Run(t *testing.T, kinds []lockagent.LockKind, open func(t *testing.T) *Harness, only ...string) {
	t.Helper()
	run(t, kinds, open, func(t *testing.T, prove func(*testing.T)) { prove(t) }, only)
}

// RunInBubble is [Run] with each case, and its call of open, in a bubble of testing/synctest.
// Time in a bubble passes only when all goroutines wait. A store that talks to a server
// cannot run there, and open cannot call t.Parallel.
func RunInBubble(t *testing.T, kinds []lockagent.LockKind, open func(t *testing.T) *Harness, only ...string) {
	t.Helper()
	run(t, kinds, open, synctest.Test, only)
}

func run(
	t *testing.T, kinds []lockagent.LockKind, open func(*testing.T) *Harness, in func(*testing.T, func(*testing.T)),
	only []string,
) {
	t.Helper()
	idle := slices.Clone(only)
	for _, kind := range kinds {
		open := func(t *testing.T) *Harness {
			h := open(t)
			h.kind, h.kinds = kind, kinds
			return h
		}
		for name, c := range cases(kind) {
			selects := func(text string) bool { return strings.HasPrefix(name, text) }
			if len(only) > 0 && !slices.ContainsFunc(only, selects) {
				continue
			}
			idle = slices.DeleteFunc(idle, selects)
			t.Run(name, func(t *testing.T) {
				in(t, func(t *testing.T) { c.check(t, open) })
			})
		}
	}
	for _, text := range idle {
		t.Errorf("no name of a case begins with %q", text)
	}
}

// cases yields the cases of a kind of locks. Those of plain locks are called chapter/clause, and the others
// kind/chapter/clause.
func cases(kind lockagent.LockKind) iter.Seq2[string, clause] {
	return func(yield func(string, clause) bool) {
		for _, chapter := range contract {
			if !slices.Contains(chapter.of, kind) {
				continue
			}
			for _, c := range chapter.clauses {
				c.layer = chapter.layer
				if c.slow && kind != lockagent.PlainLock || slices.Contains(c.except, kind) {
					continue
				}
				name := chapter.title + "/" + c.name
				if kind != lockagent.PlainLock {
					name = string(kind) + "/" + name
				}
				if !yield(name, c) {
					return
				}
			}
		}
	}
}

// The kinds of locks for which a chapter holds.
var (
	plain = []lockagent.LockKind{lockagent.PlainLock}
	// exclusive have one holder at a time, or may be used as if they had.
	exclusive = []lockagent.LockKind{
		lockagent.PlainLock,
		lockagent.FairLock,
		lockagent.FencedLock,
		lockagent.SpinLock,
		lockagent.ReadWriteLock,
	}
	// woken have waiters that are woken.
	woken = []lockagent.LockKind{
		lockagent.PlainLock,
		lockagent.FairLock,
		lockagent.FencedLock,
		lockagent.ReadWriteLock,
	}
	// hashes have one field in the store, the holder. Another program writes no more.
	hashes = []lockagent.LockKind{
		lockagent.PlainLock,
		lockagent.FairLock,
		lockagent.FencedLock,
		lockagent.SpinLock,
	}
	// queued are passed on in the order of the queue.
	queued = []lockagent.LockKind{
		lockagent.PlainLock,
		lockagent.FencedLock,
		lockagent.ReadWriteLock,
	}
	// passed are passed on.
	passed = append(slices.Clone(queued), lockagent.FairLock)
	// resting have tenures that may rest.
	resting = []lockagent.LockKind{lockagent.PlainLock, lockagent.FencedLock}
	// restless have none.
	restless  = []lockagent.LockKind{lockagent.FairLock, lockagent.SpinLock, lockagent.ReadWriteLock}
	fair      = []lockagent.LockKind{lockagent.FairLock}
	readWrite = []lockagent.LockKind{lockagent.ReadWriteLock}
	fenced    = []lockagent.LockKind{lockagent.FencedLock}
	spin      = []lockagent.LockKind{lockagent.SpinLock}

	semaphores = []lockagent.LockKind{lockagent.Semaphore, lockagent.Permits}
)

// contract is the whole suite. A chapter that is about the store, and about no lock, is proved once. The first chapters
// are the whole contract of a store without layers, and of no kind but plain locks.
var contract = []struct {
	title   string
	layer   *layer // that the chapter is about, or nil
	of      []lockagent.LockKind
	clauses []clause
}{
	{"Acquire", nil, exclusive, acquireClauses},
	{"Tenure", nil, exclusive, tenureClauses},
	{"Release", nil, exclusive, releaseClauses},
	{"Renew", nil, exclusive, renewClauses},
	{"Lease", nil, exclusive, leaseClauses},
	{"Token", nil, exclusive, tokenClauses},
	{"Subscribe", nil, woken, subscribeClauses},
	{"Reset", nil, exclusive, resetClauses},
	{"BadRequest", nil, exclusive, badRequestClauses},
	{"Concurrency", nil, exclusive, concurrencyClauses},
	{"Close", nil, plain, closeClauses},

	{"Kind", nil, exclusive, kindClauses},
	{"ReadWrite", nil, readWrite, readWriteClauses},
	{"Fenced", nil, fenced, fencedClauses},
	{"Spin", nil, spin, spinClauses},
	{"Fair", nil, fair, fairClauses},
	{"Foreign", nil, hashes, foreignClauses},

	{"Listen", withMessages, exclusive, listenClauses},
	{"Twins", withMessages, plain, twinClauses},

	{"Queue", withQueue, queued, queueClauses},
	{"Pass", withQueue, queued, passClauses},
	{"ReadWriteQueue", withQueue, readWrite, readWriteQueueClauses},
	{"Outsiders", withQueue, queued, outsiderClauses},
	{"Wanted", withQueue, passed, wantedClauses},
	{"ReadWriteWanted", withQueue, readWrite, readWriteWantedClauses},
	{"SpinWanted", withQueue, spin, spinWantedClauses},
	{"PermitsWanted", withQueue, semaphores, permitsWantedClauses},

	{"Rest", withRests, resting, restClauses},
	{"NoRest", withRests, restless, noRestClauses},

	{"Break", withOperator, exclusive, breakClauses},
	{"Inspect", withOperator, exclusive, inspectClauses},

	{"Latch", withCounters, []lockagent.LockKind{lockagent.Latch}, latchClauses},
	{"Permits", withCounters, semaphores, permitClauses},
	{"Semaphore", withCounters, []lockagent.LockKind{lockagent.Semaphore}, semaphoreClauses},
	{"PermitIDs", withCounters, []lockagent.LockKind{lockagent.Permits}, permitIDClauses},

	{"Identity", withHistory, plain, identityClauses},
	{"Time", withHistory, plain, timeClauses},
	{"Memory", withHistory, exclusive, memoryClauses},

	{"Grace", withGrace, exclusive, graceClauses},
	{"GraceReadWrite", withGrace, readWrite, graceReadWriteClauses},
	{"GracePermits", withGrace, semaphores, gracePermitClauses},
}

// clause is one sentence of the contract and its proof.
type clause struct {
	name  string // what the case shows, in a few words
	says  string // the sentence, from the documentation of package lockagent
	prove func(t *testing.T, h *Harness)

	slow   bool                 // in real time: plain locks prove it for all
	except []lockagent.LockKind // for which the sentence does not hold, see the comments of the kinds
	layer  *layer               // of the chapter
}

func (c clause) check(t *testing.T, open func(t *testing.T) *Harness) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the contract says: %s", c.says)
		}
	})
	h := open(t)
	t.Cleanup(func() { _ = h.Store.Close() })
	h.needs(t, c.layer)
	c.prove(t, h)
}

// agent returns another agent, with a store of its own. Without Messages it is never told anything.
func (h *Harness) agent(t *testing.T) *party {
	t.Helper()
	store := h.Store
	if h.used {
		store = h.Open(t)
		t.Cleanup(func() { _ = store.Close() })
	}
	h.used = true
	id := lockagent.NewAgentID()
	p := &party{t: t, store: store, kind: h.kind, id: id, messages: newMessages(t)}
	if p.offers(withMessages) {
		p.messages = Listen(t, store, id)
	}
	return p
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

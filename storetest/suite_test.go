package storetest

import (
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/memstore"
)

// soundKinds are the kinds of locks that the store without a defect has.
var soundKinds = []lockagent.LockKind{
	lockagent.PlainLock,
	lockagent.FairLock,
	lockagent.ReadWriteLock,
	lockagent.FencedLock,
	lockagent.SpinLock,
	lockagent.Latch,
	lockagent.Semaphore,
	lockagent.Permits,
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestEveryClauseQuotesTheContract fails if a sentence of the contract changes and the clause
// that quotes it does not.
func TestEveryClauseQuotesTheContract(t *testing.T) {
	text := rootComments(t)
	names := make(map[string]bool)
	for _, chapter := range contract {
		for _, c := range chapter.clauses {
			name := chapter.title + "/" + c.name
			if names[name] {
				t.Errorf("two clauses are called %q", name)
			}
			names[name] = true
			if !strings.Contains(text, c.says) {
				t.Errorf("%s: the lockagent package does not say %q", name, c.says)
			}
		}
	}
}

// rootComments returns all comments of the lockagent package as one line.
func rootComments(t *testing.T) string {
	files, err := filepath.Glob("../*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("found no source of the lockagent package: %v", err)
	}
	var text strings.Builder
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, comment := range parsed.Comments {
			text.WriteString(comment.Text())
			text.WriteByte(' ')
		}
	}
	return strings.Join(strings.Fields(text.String()), " ")
}

// defectsWanted tells the child process of TestEveryDefectIsFound what to do.
const defectsWanted = "STORETEST_RUN_DEFECTS"

// finding is a defect, and a clause that has to find it.
type finding struct{ defect, clause string }

// moreFindings has a defect for each clause that no defect names as the one to find it. Each
// leaves most other clauses alone.
var moreFindings = []finding{
	{"refuses a tenure that it has granted", "Acquire/granted again the lease starts anew, and is not shortened"},
	{"withdraws older tenures too", "Tenure/great numbers are told apart"},
	{"withdraws every tenure", "Tenure/late calls leave later tenures alone"},
	{"mixes renewals up", "Renew/the lease starts anew"},
	{"ends leases early", "Lease/the shortest and the longest lease are taken"},
	{"wakes nobody at a release", "Subscribe/many subscriptions to many locks"},
	{"goes on when it is closed", "Subscribe/a store that is closed waits for nothing"},
	{"forgets who has a lock", "Foreign/the lock of another program is refused, with its holder"},
	{"releases whoever has the lock", "Foreign/the lock of another program is left alone"},
	{"renews what is over", "Reset/a store without its memory has free locks"},
	{"tells nobody of a break", "Twins/an agent whose twin is told goes on"},
	{"forgets that an agent listens no more", "Twins/an agent that goes on with the work of one that is gone is alone"},
	{"wakes nobody at a release", "Concurrency/subscriptions come and go at any time"},
	{"does not answer once it is closed", "Close/calls under way are answered"},
}

// findings are all that the suite has to find. Every clause against every defect would take
// a hundred times as long, and prove no more.
func findings() []finding {
	var all []finding
	for _, d := range allDefects() {
		all = append(all, finding{d.name, d.found})
	}
	return slices.Concat(all, moreFindings, morePermitFindings, readWriteFindings, wantedFindings)
}

// TestEveryDefectIsFound runs clauses of the suite against defective stores. Each store has one
// defect, and the clause has to fail. They run in a child process, because they have to fail.
func TestEveryDefectIsFound(t *testing.T) {
	clauses := make(map[string]clause)
	kinds := make(map[string]lockagent.LockKind) // for which a defect spoils the clause
	for _, chapter := range contract {
		for _, c := range chapter.clauses {
			clauses[chapter.title+"/"+c.name] = c
			kinds[chapter.title+"/"+c.name] = chapter.of[0]
		}
	}
	stores := make(map[string]func(*testing.T) *Harness)
	for _, d := range allDefects() {
		stores[d.name] = d.harness
	}
	for _, d := range graceDefects {
		stores[d.name] = d.graced
	}
	if os.Getenv(defectsWanted) != "" {
		for _, f := range findings() {
			t.Run(f.defect+"/"+f.clause, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					clauses[f.clause].check(t, func(t *testing.T) *Harness {
						h := stores[f.defect](t)
						h.kind, h.kinds = kinds[f.clause], soundKinds
						return h
					})
				})
			})
		}
		return
	}
	idle := maps.Clone(clauses)
	for _, f := range findings() {
		if _, ok := clauses[f.clause]; !ok || stores[f.defect] == nil {
			t.Fatalf("there is no such clause or no such defect: %q", f)
		}
		delete(idle, f.clause)
	}
	for c := range idle {
		t.Errorf("%q finds no defect", c)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(waittest.Context(t), self, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=0")
	child.Env = append(os.Environ(), defectsWanted+"=1")
	output, err := child.CombinedOutput()
	if err == nil {
		t.Errorf("the suite passed for all defective stores")
	}
	failed := failedTests(string(output))
	for _, f := range findings() {
		if !failed[testName(t.Name(), f.defect, f.clause)] {
			t.Errorf("a store that %s was not found out by %q", f.defect, f.clause)
		}
	}
	if !strings.Contains(string(output), "the contract says: It is granted if the lock is free") {
		t.Errorf("the suite does not print the contract when a case fails")
	}
	if t.Failed() {
		dump := filepath.Join(t.ArtifactDir(), "child.txt")
		if err := os.WriteFile(dump, output, 0o600); err != nil {
			t.Error(err)
		}
		t.Logf("the output of the child is in %s, if go test was told to keep it", dump)
	}
}

// failedTests returns the names in what go test prints.
func failedTests(output string) map[string]bool {
	failed := make(map[string]bool)
	for line := range strings.Lines(output) {
		if _, name, found := strings.Cut(line, "--- FAIL: "); found {
			failed[name[:strings.LastIndex(name, " ")]] = true
		}
	}
	return failed
}

// testName is the name of a subtest as package testing writes it.
func testName(parts ...string) string {
	return strings.ReplaceAll(strings.Join(parts, "/"), " ", "_")
}

// The store without a defect passes. Otherwise the defects would prove nothing.
func TestSoundStorePasses(t *testing.T) {
	RunInBubble(t, soundKinds, defect{spoil: func(*spoilt) {}}.harness)
}

// A store may have grace periods.
func TestStoreWithGracePeriodsPasses(t *testing.T) {
	RunInBubble(t, soundKinds, defect{spoil: func(*spoilt) {}}.graced)
}

// A store may repeat messages, and say at any time that messages were missed.
func TestStoreThatRepeatsMessagesPasses(t *testing.T) {
	RunInBubble(t, soundKinds, defect{spoil: func(s *spoilt) {
		listen := s.listen
		s.listen = func(agent lockagent.AgentID, hear func(lockagent.Message)) func() {
			missed := lockagent.Message{Kind: lockagent.MessagesMissed}
			hear(missed)
			return listen(agent, func(message lockagent.Message) {
				hear(missed)
				hear(message)
				hear(message)
			})
		}
	}}.harness)
}

// A store need not have a queue. Fair locks have places all the same.
func TestStoreWithoutAQueuePasses(t *testing.T) {
	RunInBubble(t, soundKinds, defect{spoil: func(s *spoilt) {
		s.ledger.noQueue = true
		asking(func(req *lockagent.AcquireRequest) {
			req.Queue = req.Queue && req.Kind == lockagent.FairLock
			req.Rests = false
		})(s)
	}}.harness)
}

// bare is a store without layers: the interface has six methods.
type bare struct{ lockagent.Store }

// A store need not have a layer. It passes the first chapters, which are about every store.
func TestStoreWithoutLayersPasses(t *testing.T) {
	every := []string{
		"Acquire/", "Tenure/", "Release/", "Renew/", "Lease/", "Token/", "Subscribe/", "Reset/",
		"BadRequest/", "Concurrency/", "Close/",
	}
	RunInBubble(t, soundKinds, func(t *testing.T) *Harness {
		h := defect{
			spoil: asking(func(req *lockagent.AcquireRequest) { req.Queue, req.Rests = false, false }),
		}.harness(t)
		store, open := h.Store, h.Open
		h.Store = bare{store}
		h.Open = func(t testing.TB) lockagent.Store { return bare{open(t)} }
		return h
	}, every...)
}

func allDefects() []defect {
	return slices.Concat(
		defects, queueDefects, wantedDefects, restDefects, factDefects, kindDefects, fairDefects, fencedDefects, spinDefects,
		latchDefects, permitDefects, readWriteDefects, twinDefects, graceDefects,
	)
}

// harness is the harness of a store in memory that has the defect.
func (d defect) harness(*testing.T) *Harness { return d.of(memstore.New(), newLedger()) }

// graced is harness for a store with grace periods.
func (d defect) graced(*testing.T) *Harness {
	store, l := memstore.New(), newLedger()
	l.keeper = newKeeper(store.Share())
	return d.of(store, l)
}

func (d defect) of(store *memstore.Store, l *ledger) *Harness {
	l.plantOutsider = store.PlantOutsider
	spoil := func(sound *memstore.Store) lockagent.Store {
		s := newSpoilt(sound, l)
		d.spoil(s)
		return s
	}
	one := spoil(store)
	return &Harness{
		Store: one,
		Open:  func(testing.TB) lockagent.Store { return spoil(store.Share()) },
		PlantHolder: func(
			_ testing.TB, name lockagent.Name, _ lockagent.LockKind, holder string, count int, lease time.Duration,
		) {
			store.PlantHolder(name, holder, count, lease)
		},
		PlantPermit: func(_ testing.TB, name lockagent.Name, id lockagent.PermitID, lease time.Duration) {
			store.PlantPermit(name, id, lease)
		},
		PlantToken: func(_ testing.TB, name lockagent.Name, token lockagent.Token) { store.PlantToken(name, token) },
		PlantWaiter: func(_ testing.TB, name lockagent.Name, wait time.Duration, told func()) {
			store.PlantWaiter(name, wait, told)
		},
		PlantValue:       func(_ testing.TB, name lockagent.Name) { store.PlantValue(name) },
		PlantForeignHash: func(_ testing.TB, name lockagent.Name) { store.PlantValue(name) },
		PlantOutsider: func(t testing.TB, name lockagent.Name, wake func()) {
			t.Cleanup(l.plantOutsider(name, wake))
		},
		Reset:        func(testing.TB) { store.Reset() },
		GracePeriods: l.keeper != nil,
		StepClock:    func(_ testing.TB, d time.Duration) { store.StepClock(d) },
	}
}

package storetest

import (
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

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

// TestEveryDefectIsFound runs the suite against defective stores. Each has one defect, and the
// right case has to fail. The suite runs in a child process, because its tests have to fail.
func TestEveryDefectIsFound(t *testing.T) {
	if os.Getenv(defectsWanted) != "" {
		for _, d := range allDefects() {
			t.Run(d.name, func(t *testing.T) { RunInBubble(t, d.harness) })
		}
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=5m")
	child.Env = append(os.Environ(), defectsWanted+"=1")
	output, err := child.CombinedOutput()
	if err == nil {
		t.Errorf("the suite passed for all defective stores")
	}
	failed := failedTests(string(output))
	for _, d := range allDefects() {
		if !failed[testName(t.Name(), d.name, d.found)] {
			t.Errorf("a store that %s was not found out by %q", d.name, d.found)
		}
	}
	for _, c := range findNothing(t, failed) {
		t.Errorf("%q finds no defect", c)
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

// findNothing returns the cases that found no defect. A defect that fails most of the cases
// counts only for the case that has to find it.
func findNothing(t *testing.T, failed map[string]bool) []string {
	var all []string
	for _, chapter := range contract {
		for _, c := range chapter.clauses {
			all = append(all, chapter.title+"/"+c.name)
		}
	}
	found := make(map[string]bool)
	for _, d := range allDefects() {
		var by []string
		for _, c := range all {
			if failed[testName(t.Name(), d.name, c)] {
				by = append(by, c)
			}
		}
		for _, c := range by {
			found[c] = found[c] || len(by) < len(all)/2 || c == d.found
		}
	}
	return slices.DeleteFunc(all, func(c string) bool { return found[c] })
}

// testName is the name of a subtest as package testing writes it.
func testName(parts ...string) string {
	return strings.ReplaceAll(strings.Join(parts, "/"), " ", "_")
}

// The store without a defect passes. Otherwise the defects would prove nothing.
func TestSoundStorePasses(t *testing.T) {
	RunInBubble(t, defect{spoil: func(*spoilt) {}}.harness)
}

// A store may repeat messages, and say at any time that messages were missed.
func TestStoreThatRepeatsMessagesPasses(t *testing.T) {
	RunInBubble(t, defect{spoil: func(s *spoilt) {
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

// A store need not have a queue.
func TestStoreWithoutAQueuePasses(t *testing.T) {
	RunInBubble(t, defect{spoil: func(s *spoilt) {
		s.ledger.noQueue = true
		asking(func(req *lockagent.AcquireRequest) { req.Queue = false })(s)
	}}.harness)
}

func allDefects() []defect { return slices.Concat(defects, queueDefects) }

// harness is the harness of a store in memory that has the defect.
func (d defect) harness(*testing.T) *Harness {
	store := memstore.New()
	l := newLedger()
	l.plantOutsider = store.PlantOutsider
	spoil := func(sound lockagent.Store) lockagent.Store {
		s := newSpoilt(sound, l)
		d.spoil(s)
		return s
	}
	one := spoil(store)
	return &Harness{
		NoQueue: l.noQueue,
		Store:   one,
		Open:    func(testing.TB) lockagent.Store { return spoil(store.Share()) },
		PlantHolder: func(_ testing.TB, name lockagent.Name, holder string, count int, lease time.Duration) {
			store.PlantHolder(name, holder, count, lease)
		},
		PlantValue:       func(_ testing.TB, name lockagent.Name) { store.PlantValue(name) },
		PlantForeignHash: func(_ testing.TB, name lockagent.Name) { store.PlantValue(name) },
		PlantOutsider:    func(t testing.TB, name lockagent.Name, wake func()) { t.Cleanup(l.plantOutsider(name, wake)) },
		Reset:            func(testing.TB) { store.Reset() },
		StepClock:        func(_ testing.TB, d time.Duration) { store.StepClock(d) },
	}
}

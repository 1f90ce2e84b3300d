//go:build soak

package lockstate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// planted is a defect in a rule of settle, or in a condition of such a rule.
type planted struct {
	rule    string // the function
	was, is string // a text that the function has once, and what takes its place
	what    string // the agent does then
}

// defects are planted one at a time. The exploration and the random histories have to find each.
var defects = []planted{
	{"endHolds", "case s.closed:", "case false:", "does not end its holds when it is closed"},
	{"endHolds", "m.Now >= s.tenure.deadline", "false", "trusts in a tenure beyond its deadline"},
	{"endHolds", "m.Now >= g.fixed", "false", "goes on with a hold beyond its fixed lease"},

	{"refuseWhenClosed", "&& s.closed", "&& false", "lets requests wait for a lock that is closed"},

	{"grantAgain", "w == nil", "true", "lets a session wait for itself"},
	{"grantAgain", "!s.covered(&w.Request, m.Now)", "false", "grants a re-entry before the store has its lease"},
	{
		"grantAgain", "s.others(w.Owner, end, nil, m.Now)", "s.others(w.Owner, end, nil, never)",
		"leaves the holds of a session with several leases",
	},
	{"grantAgain", "!w.Outlive", "true", "grants a re-entry for longer than the store has its lease"},

	{"refuseUpgrade", "w == nil", "true", "lets a reader wait for itself to write"},

	{"grantBeside", "!s.mayGrant(&w.Request, m)", "true", "lets readers wait for readers"},
	{"grantBeside", "!s.mayGrant(&w.Request, m)", "false", "lets everybody in beside those who hold the lock"},

	{"answerLocally", "(s.requests.held.n > 0 || s.Resting())", "s.Resting()", "keeps who released from an answer"},
	{
		"answerLocally", "(s.requests.held.n > 0 || s.Resting())", "s.requests.held.n > 0",
		"does not answer a release while the lock rests",
	},
	{"answerLocally", "(s.requests.held.n > 0 || s.Resting())", "true", "answers a release before the lock has gone back"},
	{"answerLocally", "w != nil && s.requests.held.n > 0", "false", "lets a request wait that does not wait"},

	{"reclaim", "m.Now < g.claimBy", "true", "leaves a grant in its channel for ever"},
	{"reclaim", "m.Now < g.claimBy", "false", "takes a grant back at once"},

	{"warn", "m.Now < s.uncertainAt()", "true", "does not warn of the end of a lease"},
	{"warn", "m.Now < s.uncertainAt()", "false", "warns again and again"},

	{"moveOn", "case s.requests.waiting.n > 0 &&", "case false &&", "does not ask for a free lock"},
	{"moveOn", "m.Now >= s.notBefore && !s.heldBack", "!s.heldBack", "does not let others go first"},
	{"moveOn", "case s.requests.waiting.n == 0 && s.contended", "case false", "listens for ever"},
	{"moveOn", "case !s.sought() && s.attempt.mayHave():", "case false:", "does not withdraw what it does not want"},
	{"moveOn", "case !s.sought():", "case false:", "asks on for nobody"},
	{
		"moveOn", "m.Now >= s.retryAt || s.requests.tries.n > 0 && !s.attempt.spares(m.Now)", "false",
		"sleeps on",
	},
	{"moveOn", "case s.leaving.inFlight:", "case false:", "releases twice at a time"},
	{"moveOn", "m.Now >= s.leaving.dropAt", "false", "never gives a release up"},
	{"moveOn", "case m.Now >= s.retryAt || s.requests.tries.n > 0:", "case false:", "does not release again"},

	{"useTenure", "s.requests.held.n > 0 ||", "false ||", "returns a tenure that is held"},
	{"useTenure", "s.tenure.holds == 0 &&", "true &&", "keeps a tenure in doubt for the next hold"},
	{"useTenure", "w != nil && (s.tenure.doubt", "(s.tenure.doubt", "renews a tenure that nobody wants"},
	{"useTenure", "(s.tenure.doubt ||", "(false ||", "returns a tenure in doubt before its first hold"},
	{"useTenure", "!s.covered(&w.Request, m.Now))", "false)", "returns a tenure that is too short at first"},
	{"useTenure", "&& s.renewal.failures == 0", "", "waits for renewals that fail before its first hold"},
	{"useTenure", "m.Now < s.tenure.deadline", "true", "waits for a renewal beyond the deadline"},
	{"useTenure", "s.InDoubt() && s.renewal.inFlight", "false", "releases what a renewal under way may put back"},
	{"useTenure", "keep && !s.renewal.inFlight &&", "keep &&", "renews twice at a time"},
	{"useTenure", "m.Now >= s.renewalDue()", "false", "does not renew"},
	{"useTenure", "s.lacksCover(m)", "false", "does not renew for a reader whose lease is to outlive the process"},
	{"useTenure", "case keep:", "case false:", "returns a tenure between its renewals"},
	{"useTenure", "case w != nil && s.mayGrant(&w.Request, m):", "case false:", "grants nobody the lock"},
	{"useTenure", "case w != nil && s.mayGrant(&w.Request, m):", "case w != nil:", "hands off whatever the state"},
	{"useTenure", "case w == nil && s.mayRest(m):", "case s.mayRest(m):", "rests while somebody waits"},
	{"useTenure", "case w == nil && s.mayRest(m):", "case w == nil:", "rests whatever the state"},
	{"useTenure", "case w == nil && s.mayRest(m):", "case false:", "never rests"},
	{"useTenure", "if s.Resting() {", "if false {", "begins to rest again and again"},

	{"mayGrant", "s.covered(r, m.Now) &&", "", "does not wait for the lease that is to outlive the process"},
	{"mayGrant", "s.serves(r, m)", "true", "grants the lock whatever the state"},

	{"lacksCover", "w != nil &&", "", "looks for somebody where nobody waits"},
	{"lacksCover", "s.requests.held.n > 0 &&", "", "renews for whoever waits, also if nobody holds the lock"},
	{"lacksCover", "s.serves(&w.Request, m)", "true", "renews for a request that has to wait"},

	{"serves", "beside && (r.Mode == Exclusive", "false && (r.Mode == Exclusive", "grants the lock while it is held"},
	{"serves", "(r.Mode == Exclusive ||", "(false ||", "lets a writer in beside readers"},
	{"serves", "!s.requests.shared()", "false", "lets a reader in beside a writer"},
	{"serves", "r.Mode < t.mode", "false", "lets a writer into a tenure that others share"},
	{"serves", "m.Now >= t.deadline", "false", "grants the lock beyond the deadline"},
	{"serves", "t.doubt", "false", "grants the lock in a tenure in doubt"},
	{"serves", "s.left(m.Now) > need+rounding", "false", "keeps others out for longer than a hold needs"},
	{"serves", "s.requests.kept > 0", "false", "does not let a reader with a short lease join a kept one"},
	{"serves", "g != nil", "false", "does not let a reader with a short lease join a long one"},
	{"serves", "t.holds == 0", "false", "asks the first hold for a budget"},
	{"serves", "s.renewal.failures > 0", "false", "hands off while renewals fail"},
	{"serves", "t.next() > t.greatest(m.Now)", "false", "makes tokens ahead of the store's clock"},
	{"serves", "t.ending(m.Now)", "false", "hands off shortly before the deadline"},
	{"serves", "t.mode == Shared &&", "", "lets readers join an exclusive tenure without a budget"},
	{"serves", "&& !t.contested", "", "lets readers join while another agent waits"},
	{"serves", "&& !t.outsiders", "", "lets readers join while an outsider waits"},
	{"serves", "joins ||", "joins && false ||", "keeps readers out for nobody when the budget is spent"},
	{"serves", "holds > 0 &&", "(holds > 0 || true) &&", "hands off more often than it may"},
	{"serves", "&& m.Now < until", "&& (m.Now < until || true)", "hands off for longer than it may"},

	{"covered", "!r.Outlive ||", "true ||", "takes every lease for long enough"},
	{"covered", "s.fixedEnd(r, now) <= s.tenure.deadline", "false", "takes no lease for long enough"},
}

// harmless are conditions without which the agent does the same.
var harmless = []struct{ rule, text, why string }{
	{"lacksCover", "!s.covered(&w.Request, m.Now)", "grantBeside comes first, and grants whoever is covered"},
	{"serves", "joins := beside", "a reader who has not joined waits for something else"},
}

// conditional are the functions that have a defect for each of their conditions.
var conditional = []string{"mayGrant", "lacksCover", "serves", "covered", "useTenure"}

// huntVariable is set in the process that looks for a planted defect.
const huntVariable = "LOCKAGENT_TEST_HUNT"

// huntLasts bounds the hunt for one defect.
const huntLasts = 20 * time.Minute

// The exploration and the random histories find each defect. Otherwise they would prove less than they seem to.
func TestSoakPlantedDefects(t *testing.T) {
	if os.Getenv(huntVariable) != "" {
		hunt(t)
		return
	}
	source := readSource(t)
	for _, problem := range source.missing() {
		t.Error(problem)
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		if out, err := huntIn(t, nil); err != nil {
			t.Errorf("without a defect: %v\n%s", err, out)
		}
	})
	for _, d := range defects {
		t.Run(d.rule+" "+d.what, func(t *testing.T) {
			t.Parallel()
			file, text, err := source.plant(d)
			if err != nil {
				t.Fatal(err)
			}
			out, err := huntIn(t, map[string]string{file: text})
			if err == nil {
				t.Errorf("no test finds an agent that %s", d.what)
			} else if !strings.Contains(out, "--- FAIL: TestSoakPlantedDefects") && !strings.Contains(out, "panic: ") {
				t.Errorf("the hunt ended with %v\n%s", err, out)
			}
		})
	}
}

// huntIn looks for defects in the package with other files in place of some of its own.
func huntIn(t *testing.T, files map[string]string) (out string, err error) {
	t.Helper()
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{make(map[string]string)}
	for name, text := range files {
		changed := filepath.Join(dir, filepath.Base(name))
		write(t, changed, []byte(text))
		overlay.Replace[name] = changed
	}
	list, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "overlay.json"), list)
	ctx, cancel := context.WithTimeout(t.Context(), huntLasts)
	defer cancel()
	binary := filepath.Join(dir, "test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-tags=soak", "-o", binary,
		"-overlay", filepath.Join(dir, "overlay.json"), ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, out)
	}
	run := exec.CommandContext(ctx, binary,
		"-test.run=^TestSoakPlantedDefects$", "-rapid.checks=2000", "-rapid.seed=1", "-rapid.shrinktime=1ns",
		"-rapid.nofailfile")
	run.Env = append(os.Environ(), huntVariable+"=1")
	var text bytes.Buffer
	run.Stdout, run.Stderr = &text, &text
	err = run.Run()
	if ctx.Err() != nil {
		t.Fatalf("the hunt takes longer than %v", huntLasts)
	}
	return text.String(), err
}

func write(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// hunt ends with the first problem that it finds. What finds most comes first.
func hunt(t *testing.T) {
	look := func(most int) {
		for _, v := range variants {
			e := newExploration(v)
			if e.run(most); e.found != "" {
				t.Fatalf("%s: %s", v.name, e.found)
			}
		}
	}
	look(few / 10)
	TestAnySequenceOfCommands(t)
	if t.Failed() {
		t.FailNow()
	}
	look(few)
	for _, v := range variants {
		e := newExploration(v.longer(20))
		for seed := range uint64(walks) {
			if e.walk(rand.New(rand.NewPCG(seed, 0)), 400); e.found != "" {
				t.Fatalf("%s: %s", v.name, e.found)
			}
		}
	}
}

// source is the code of the package.
type source struct {
	functions map[string]function // methods of State
}

// function is a function in its file.
type function struct {
	path       string
	text       string // of the file
	start, end int    // of the body
	node       *ast.FuncDecl
	fset       *token.FileSet
}

func (f *function) body() string { return f.text[f.start:f.end] }

func readSource(t *testing.T) *source {
	t.Helper()
	s := &source{make(map[string]function)}
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		path, err := filepath.Abs(name)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && ofState(f) {
				start, end := fset.Position(f.Body.Pos()).Offset, fset.Position(f.Body.End()).Offset
				s.functions[f.Name.Name] = function{path, string(text), start, end, f, fset}
			}
		}
	}
	return s
}

// ofState reports whether a function is a method of State.
func ofState(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return false
	}
	star, ok := f.Recv.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	name, ok := star.X.(*ast.Ident)
	return ok && name.Name == "State"
}

// plant returns the file that has the defect, and its text then.
func (s *source) plant(d planted) (path, text string, err error) {
	f, ok := s.functions[d.rule]
	if !ok {
		return "", "", fmt.Errorf("there is no rule %s", d.rule)
	}
	if n := strings.Count(f.body(), d.was); n != 1 {
		return "", "", fmt.Errorf("%s has %q %d times, want once: mend the table of defects", d.rule, d.was, n)
	}
	return f.path, f.text[:f.start] + strings.Replace(f.body(), d.was, d.is, 1) + f.text[f.end:], nil
}

// missing tells what has no defect in the table: rules of settle, and conditions.
func (s *source) missing() (problems []string) {
	of := make(map[string][]string) // the texts
	for _, d := range defects {
		of[d.rule] = append(of[d.rule], d.was)
	}
	for _, h := range harmless {
		of[h.rule] = append(of[h.rule], h.text)
	}
	settle, ok := s.functions["settle"]
	if !ok {
		return []string{"there is no settle"}
	}
	rules := 0
	ast.Inspect(settle.node.Body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if rule, ok := call.Fun.(*ast.SelectorExpr); ok {
				if rules++; len(of[rule.Sel.Name]) == 0 {
					problems = append(problems, fmt.Sprintf("rule %s has no defect in the table", rule.Sel.Name))
				}
			}
		}
		return true
	})
	if rules == 0 {
		problems = append(problems, "settle calls no rule")
	}
	for _, name := range conditional {
		f, ok := s.functions[name]
		if !ok {
			problems = append(problems, fmt.Sprintf("there is no function %s", name))
			continue
		}
		for _, c := range conditions(f.node) {
			start, end := f.fset.Position(c.Pos()).Offset-f.start, f.fset.Position(c.End()).Offset-f.start
			found := false
			for _, was := range of[name] {
				at := strings.Index(f.body(), was)
				found = found || at >= 0 && at < end && start < at+len(was)
			}
			if !found {
				text := f.body()[start:end]
				problems = append(problems, fmt.Sprintf("condition %q of %s has no defect in the table", text, name))
			}
		}
	}
	return problems
}

// conditions are what a function looks at one by one: the operands of its conditions.
func conditions(f *ast.FuncDecl) (all []ast.Expr) {
	var add func(x ast.Expr)
	add = func(x ast.Expr) {
		switch x := x.(type) {
		case *ast.ParenExpr:
			add(x.X)
		case *ast.BinaryExpr:
			if x.Op == token.LAND || x.Op == token.LOR {
				add(x.X)
				add(x.Y)
				return
			}
			all = append(all, x)
		default:
			all = append(all, x)
		}
	}
	logical := func(x ast.Expr) bool {
		b, ok := x.(*ast.BinaryExpr)
		return ok && (b.Op == token.LAND || b.Op == token.LOR)
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			add(n.Cond)
		case *ast.CaseClause:
			for _, x := range n.List {
				add(x)
			}
		case *ast.ReturnStmt:
			for _, x := range n.Results {
				if logical(x) {
					add(x)
				}
			}
		case *ast.AssignStmt:
			for _, x := range n.Rhs {
				if logical(x) {
					add(x)
				}
			}
		}
		return true
	})
	return all
}

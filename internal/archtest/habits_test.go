package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// longest is how many lines a Go file may have. A longer one is more than one idea,
// or has a reason to be listed in longFiles.
const longest = 600

// longFiles has the reasons of those that are longer.
var longFiles = map[string]string{}

// timedFiles has the reasons of test files, and of folders, that look at the clock, although a busy machine is slow.
var timedFiles = map[string]string{
	"actor/believers_test.go":              "writes down when things happened, for the log",
	"cmd/lockagent/events_test.go":         "judges an hour",
	"cmd/lockagent/disk_linux_test.go":     "waits for as long as a lease",
	"events/natslog/readlost_test.go":      "waits for a time",
	"events/natslog/state_test.go":         "judges an hour",
	"internal/redistest/redistest_test.go": "gives an answer that must not come a moment",
	"internal/scenarios/":                  "its worlds are in bubbles",
	"internal/sizing/":                     "its fleet is in a bubble",
	"interop/redisson/contest_test.go":     "counts times for make soak",
	"outage_test.go":                       "holds a lock for a moment",
	"permits_test.go":                      "looks for as long as a call took",
	"tracing/cost_test.go":                 "measures",
	"webui/many_test.go":                   "judges the least time that something takes",
	"webui/sizes_test.go":                  "measures",
}

// soakTag keeps a file from make test.
var soakTag = regexp.MustCompile(`(?m)^//go:build (\w+ && )?soak$`)

func TestHabits(t *testing.T) {
	for _, lapse := range lapses(os.DirFS("../.."), longFiles, timedFiles) {
		t.Error(lapse)
	}
}

// marks are left at what somebody meant to come back to. (They must not find themselves.)
var marks = []string{"TO" + "DO", "FIX" + "ME", "X" + "XX"}

var left = regexp.MustCompile(`\b(` + strings.Join(marks, "|") + `)\b`)

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// lapses returns what is wrong with the Go files of a tree, other than generated
// ones.
func lapses(tree fs.FS, long, timed map[string]string) []string {
	var found []string
	add := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	seen := make(map[string]bool)
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		source, err := fs.ReadFile(tree, name)
		if err != nil || bytes.Contains(source, []byte("DO NOT EDIT")) && generated.Match(source) {
			return err
		}
		lines := bytes.Count(source, []byte("\n"))
		if _, listed := long[name]; listed {
			seen[name] = lines > longest
		} else if lines > longest {
			add("%s has %d lines, more than %d: is it one idea?", name, lines, longest)
		}
		for i, line := range bytes.Split(source, []byte("\n")) {
			if !slices.ContainsFunc(marks, func(mark string) bool { return bytes.Contains(line, []byte(mark)) }) {
				continue // which is much quicker to see than what left finds
			}
			if word := left.Find(line); word != nil {
				add("%s:%d: %s: do it now, or write down elsewhere that it is not done", name, i+1, word)
			}
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, source, parser.SkipObjectResolution)
		if err != nil {
			add("%v", err)
			return nil
		}
		for _, at := range calls(file, "Sleep") {
			add(
				"%s: a test that sleeps is slow or wrong: wait for what shall happen, or use testing/synctest", fset.Position(at),
			)
		}
		soaks := soakTag.Match(source)
		if looks := slices.Concat(calls(file, "Since"), guards(file), bounds(file)); !soaks &&
			!strings.HasSuffix(name, "bench_test.go") {
			for listed := range timed {
				if len(looks) > 0 && strings.HasPrefix(name, listed) {
					seen[listed], looks = true, nil
				}
			}
			for _, at := range looks {
				add("%s: a busy machine is slow: wait with package waittest, and judge time with testing/synctest, or in a "+
					"test of make soak", fset.Position(at))
			}
		}
		for _, declared := range file.Decls {
			test, ok := declared.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(test.Name.Name, "Test") || test.Name.Name == "TestMain" {
				continue
			}
			if soaks != strings.HasPrefix(test.Name.Name, "TestSoak") {
				add("%s: the name of a test begins with TestSoak if it is in a file with the build tag soak, and only there",
					fset.Position(test.Pos()))
			}
		}
		for _, at := range leniencies(file) {
			add("%s: a CI machine that lacks something shall not skip the test: use package machinetest", fset.Position(at))
		}
		return nil
	})
	if err != nil {
		add("%v", err)
	}
	for name := range long {
		if !seen[name] {
			add("%s is listed as a long file, and is not", name)
		}
	}
	for name := range timed {
		if !seen[name] {
			add("%s is listed as one that looks at the clock, and does not", name)
		}
	}
	return found
}

// guards returns where a file goes on after a while if nothing else happened, on a clock that is not virtual.
func guards(file *ast.File) []token.Pos {
	after := calls(file, "After")
	var found []token.Pos
	ast.Inspect(file, func(n ast.Node) bool {
		if c, ok := n.(*ast.CommClause); ok && c.Comm != nil {
			for _, at := range after {
				if c.Comm.Pos() <= at && at < c.Comm.End() {
					found = append(found, at)
				}
			}
		}
		return true
	})
	return found
}

// bounds returns where a file asks whether a time has passed: time.Now() is after it, or before it. A file with a clock
// that is virtual has its own bounds.
func bounds(file *ast.File) []token.Pos {
	now := calls(file, "Now")
	var found []token.Pos
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && (s.Sel.Name == "After" || s.Sel.Name == "Before") {
			if call, ok := s.X.(*ast.CallExpr); ok && slices.Contains(now, call.Fun.Pos()) {
				found = append(found, call.Pos())
			}
		}
		return true
	})
	return found
}

// calls returns where a file calls some functions of package time, on a clock that is not virtual.
func calls(file *ast.File, functions ...string) []token.Pos {
	clock := "" // what the file calls package time
	for _, spec := range file.Imports {
		switch imported, _ := strconv.Unquote(spec.Path.Value); {
		case imported == "testing/synctest":
			return nil
		case imported == "time" && spec.Name != nil:
			clock = spec.Name.Name
		case imported == "time":
			clock = "time"
		}
	}
	var found []token.Pos
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains(functions, s.Sel.Name) {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == clock {
				found = append(found, s.Pos())
			}
		}
		return true
	})
	return found
}

// machine has the names by which a test asks for what the machine has: its user, its system, or an error.
var machine = map[string]bool{"Getuid": true, "Geteuid": true, "GOOS": true, "err": true}

// leniencies returns where a file skips a test because of the machine, also on a CI machine.
func leniencies(file *ast.File) []token.Pos {
	var found []token.Pos
	ast.Inspect(file, func(n ast.Node) bool {
		branch, ok := n.(*ast.IfStmt)
		if !ok || !names(branch.Cond, func(name string) bool { return machine[name] }) {
			return true
		}
		if names(branch.Body, func(name string) bool { return strings.HasPrefix(name, "Skip") }) {
			found = append(found, branch.Pos())
		}
		return true
	})
	return found
}

// names tells whether a name that fits is below a node.
func names(n ast.Node, fits func(string) bool) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && fits(id.Name)
		return !found
	})
	return found
}

func TestLapsesAreFound(t *testing.T) {
	file := func(source string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(source)} }
	long := "package a\n" + strings.Repeat("\n", longest)
	mark := "TO" + "DO"
	tree := fstest.MapFS{
		"a/good.go": file("package a\n\nimport \"time\"\n\nfunc f() { time.Sleep(1) }\n"),
		"a/good_test.go": file(
			"package a\n\nimport (\n\t\"testing/synctest\"\n\t\"time\"\n)\n\nfunc f() { synctest.Wait(); time.Sleep(1) }\n",
		),
		"a/own_test.go":   file("package a\n\nimport \"time\"\n\nvar _ time.Time\n\nfunc f(x t) { x.Sleep(1) }\n"),
		"a/sleep_test.go": file("package a\n\nimport \"time\"\n\nfunc f() { time.Sleep(1) }\n"),
		"a/alias_test.go": file("package a\n\nimport t \"time\"\n\nfunc f() { t.Sleep(1) }\n"),
		"a/root_test.go":  file("package a\n\nfunc f(t T) {\n\tif os.Geteuid() != 0 {\n\t\tt.Skip()\n\t}\n}\n"),
		"a/lacks_test.go": file(
			"package a\n\nfunc f(t T) {\n\tif _, err := g(); err != nil {\n\t\tt.Skipf(\"%v\", err)\n\t}\n}\n",
		),
		"a/short_test.go": file("package a\n\nfunc f(t T) {\n\tif testing.Short() {\n\t\tt.Skip()\n\t}\n}\n"),
		"a/since_test.go": file("package a\n\nimport \"time\"\n\nvar _ = time.Since(then) > time.Second\n"),
		"a/guard_test.go": file(
			"package a\n\nimport \"time\"\n\nfunc f() {\n\tselect {\n\tcase <-time.After(1):\n\t}\n\t<-time.After(1)\n}\n",
		),
		"a/until_test.go": file("package a\n\nimport \"time\"\n\nvar _ = time.Now().After(end)\n"),
		"a/timed_test.go": file("package a\n\nimport \"time\"\n\nvar _ = time.Since(then)\n"),
		"a/bench_test.go": file("package a\n\nimport \"time\"\n\nvar _ = time.Since(then)\n"),
		"a/soak_test.go": file(
			"// B.\n\n//go:build soak\n\npackage a\n\nimport \"time\"\n\nfunc TestSoakA() { time.Since(then) }\n",
		),
		"a/tagged_test.go": file("//go:build soak\n\npackage a\n\nfunc TestB() {}\n"),
		"a/named_test.go":  file("package a\n\nfunc TestSoakC() {}\n\nfunc TestMain() {}\n"),
		"a/broken_test.go": file("package"),
		"b/long.go":        file(long),
		"b/listed.go":      file(long),
		"b/shrunk.go":      file("package b\n"),
		"b/made.go":        file("// Code generated by x. DO NOT EDIT.\n\n// " + mark + "\n" + long),
		"b/words.go":       file("package b\n\n// " + mark + ": later\n\nvar METHOD" + mark + "X int\n"),
		"b/notes.md":       file(mark),
		".git/x.go":        file(mark),
	}
	found := lapses(
		tree, map[string]string{"b/listed.go": "a table", "b/shrunk.go": "it was long", "b/gone.go": "it was there"},
		map[string]string{"a/timed_test.go": "measures", "a/virtual/": "in bubbles"},
	)
	want := []string{
		"a/sleep_test.go:5", "a/alias_test.go:5", "a/root_test.go:4", "a/lacks_test.go:4",
		"a/since_test.go:5", "a/guard_test.go:7", "a/tagged_test.go:5", "a/named_test.go:3", "a/until_test.go:5",
		"a/virtual/ is listed",
		"a/broken_test.go", "b/long.go has 601 lines",
		"b/shrunk.go is listed", "b/gone.go is listed", "b/words.go:3",
	}
	if len(found) != len(want) {
		t.Errorf("%d lapses were found, want %d:\n%s", len(found), len(want), strings.Join(found, "\n"))
	}
	for _, w := range want {
		if !strings.Contains(strings.Join(found, "\n"), w) {
			t.Errorf("%q was not found", w)
		}
	}
}

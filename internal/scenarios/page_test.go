package scenarios

import (
	_ "embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// allIDs are the ids of all scenarios, one on each line.
//
//go:embed testdata/ids.txt
var allIDs string

const page = "docs/scenarios.md"

func TestThePageTellsOfEveryScenario(t *testing.T) {
	root := os.DirFS("../..")
	text, err := fs.ReadFile(root, page)
	must(t, err)
	tests, err := testsIn(root)
	must(t, err)
	rows := rowsOf(string(text))
	for _, fault := range faults(rows, strings.Fields(allIDs), tests) {
		t.Errorf("%s: %s", page, fault)
	}
	missing, partial := 0, 0
	for _, r := range rows {
		switch {
		case r.test == notYet:
			missing++
		case strings.Contains(r.remark, notYet):
			partial++
		}
	}
	t.Logf("of %d scenarios %d have no test yet, and the tests of %d others lack a part", len(rows), missing, partial)
}

// What the column of tests may have instead of names.
const (
	notYet = "not yet"
	never  = "no"
)

// row is a line of the page.
type row struct{ id, test, remark string }

var rowForm = regexp.MustCompile(`(?m)^\| ([A-P]\d\d) \|[^|\n]*\|([^|\n]*)\|([^|\n]*)\|$`)

func rowsOf(page string) (rows []row) {
	for _, cells := range rowForm.FindAllStringSubmatch(page, -1) {
		rows = append(rows, row{cells[1], strings.TrimSpace(cells[2]), strings.TrimSpace(cells[3])})
	}
	return rows
}

// testsIn returns the names of all tests in a tree of Go files, and of the subtests of TestKinds.
func testsIn(root fs.FS) (tests []string, err error) {
	for _, k := range kinds {
		for _, s := range shared {
			if ids := s.idsOf(k); ids != "" {
				tests = append(tests, "TestKinds/"+k.name+"/"+ids+s.name)
			}
		}
	}
	err = fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && d.Name() == ".git" {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				tests = append(tests, f.Name.Name)
			}
		}
		return nil
	})
	return tests, err
}

// faults returns what is wrong with the rows.
func faults(rows []row, ids, tests []string) (found []string) {
	add := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	carried := make(map[string][]string) // the tests of each id
	for _, test := range tests {
		for _, id := range idsOfTest(test) {
			carried[id] = append(carried[id], test)
		}
	}
	listed := make(map[string]bool)
	for _, r := range rows {
		if listed[r.id] {
			add("%s has two rows", r.id)
		}
		listed[r.id] = true
		named := quoted(r.test)
		for _, test := range slices.Concat(named, quoted(r.remark)) {
			if !slices.Contains(tests, test) && strings.HasPrefix(test, "Test") {
				add("%s: there is no test %s", r.id, test)
			}
		}
		for _, test := range carried[r.id] {
			if !slices.Contains(named, test) {
				add("%s: %s is not in the row", r.id, test)
			}
		}
		for _, test := range named {
			if !slices.Contains(idsOfTest(test), r.id) {
				add("%s: the name of %s has another id", r.id, test)
			}
		}
		if len(named) == 0 && r.test != notYet && (r.test != never || r.remark == "") {
			add("%s has no test; write %q, or %q with the reason", r.id, notYet, never)
		}
	}
	for _, id := range ids {
		if !listed[id] {
			add("%s has no row", id)
		}
		delete(listed, id)
		delete(carried, id)
	}
	for id := range listed {
		add("there is no scenario %s", id)
	}
	for id, tests := range carried {
		add("there is no scenario %s for %v", id, tests)
	}
	return found
}

var (
	quotes  = regexp.MustCompile("`([^`]*)`")
	idsForm = regexp.MustCompile(`^(?:Test|TestSoak|TestKinds/\w+/)((?:[A-P]\d\d)+)[A-Z]`)
	idForm  = regexp.MustCompile(`[A-P]\d\d`)
)

func quoted(text string) (names []string) {
	for _, found := range quotes.FindAllStringSubmatch(text, -1) {
		names = append(names, found[1])
	}
	return names
}

// idsOfTest returns the ids in the name of a test.
func idsOfTest(test string) []string {
	if found := idsForm.FindStringSubmatch(test); found != nil {
		return idForm.FindAllString(found[1], -1)
	}
	return nil
}

func TestFaultsOfThePageAreFound(t *testing.T) {
	const good = "| A01 | a | `TestA01One` | |\n| A02 | b | `TestA02B01Two`, `TestKinds/plain/A02Two` | like `One` |\n" +
		"| A03 | c | not yet | `TestOther` |\n| A04 | d | no | it makes no sense |\n| B01 | e | `TestA02B01Two` | |\n"
	ids := []string{"A01", "A02", "A03", "A04", "B01"}
	tests := []string{"TestA01One", "TestA02B01Two", "TestKinds/plain/A02Two", "TestOther", "TestUTF8"}
	if found := faults(rowsOf(good), ids, tests); len(found) != 0 {
		t.Errorf("%q", found)
	}
	for old, change := range map[string]struct{ to, fault string }{
		"| A01 |":            {"| A02 |", "A02 has two rows"},
		"| A04 |":            {"| A05 |", "no scenario A05"},
		"`TestA01One`":       {"`TestOther`", "the name of TestOther has another id"},
		"`TestOther`":        {"`TestGone`", "there is no test TestGone"},
		"plain/A02Two`":      {"fair/A02Two`", "there is no test TestKinds/fair/A02Two"},
		"`TestA02B01Two`, ":  {"", "A02: TestA02B01Two is not in the row"},
		"it makes no sense ": {"", "A04 has no test"},
		"not yet":            {"later", "A03 has no test"},
		"`TestA01One` |":     {"not yet |", "A01: TestA01One is not in the row"},
		"| B01 | e |":        {"B01", "B01 has no row"},
	} {
		if found := faults(
			rowsOf(strings.Replace(good, old, change.to, 1)), ids, tests,
		); !strings.Contains(strings.Join(found, "\n"), change.fault) {
			t.Errorf("with %q for %q %q is not found, but %q", change.to, old, change.fault, found)
		}
	}
	if found := faults(rowsOf(good), ids, append(tests, "TestC01Three")); len(found) != 1 {
		t.Errorf("a test of no scenario: %q", found)
	}
}

package redisson

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const page = "docs/redisson.md"

func TestThePageTellsOfEveryMethod(t *testing.T) {
	const root = "../.."
	text, err := os.ReadFile(filepath.Join(root, page))
	must(t, err)
	api := make(declared)
	must(t, api.add(root, "lockagent."))
	must(t, api.add(filepath.Join(root, "channelapi"), ""))
	for _, fault := range faults(string(text), strings.Split(strings.TrimSpace(allMethods), "\n"), api) {
		t.Errorf("%s: %s", page, fault)
	}
}

// declared has the identifiers that packages declare: "Lock", and "Lock.Acquire" for a method or a field. Each has the
// types whose methods and fields it has, too: those that it embeds, or is an alias of.
type declared map[string][]string

func (d declared) has(name string) bool {
	if _, ok := d[name]; ok {
		return true
	}
	dot := strings.LastIndex(name, ".")
	return dot > 0 && slices.ContainsFunc(d[name[:dot]], func(part string) bool { return d.has(part + name[dot:]) })
}

// add adds the identifiers of the package in a directory, with a prefix.
func (d declared) add(dir, prefix string) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, failed := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if failed != nil {
			return failed
		}
		for _, decl := range file.Decls {
			d.declare(decl, prefix)
		}
	}
	return err
}

func (d declared) declare(decl ast.Decl, prefix string) {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		name := decl.Name.Name
		if decl.Recv != nil {
			name = typeName(decl.Recv.List[0].Type) + "." + name
		}
		d[prefix+name] = nil
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					d[prefix+name.Name] = nil
				}
			case *ast.TypeSpec:
				d.declareType(prefix+spec.Name.Name, spec.Type, prefix)
			}
		}
	}
}

func (d declared) declareType(name string, is ast.Expr, prefix string) {
	d[name] = nil
	members := new(ast.FieldList)
	switch is := is.(type) {
	case *ast.StructType:
		members = is.Fields
	case *ast.InterfaceType:
		members = is.Methods
	case *ast.SelectorExpr, *ast.IndexExpr: // of an alias
		d[name] = []string{typeName(is)}
	}
	for _, member := range members.List {
		if member.Names == nil {
			d[name] = append(d[name], prefix+typeName(member.Type))
		}
		for _, field := range member.Names {
			d[name+"."+field.Name] = nil
		}
	}
}

// typeName is the name of a type, without a pointer and parameters.
func typeName(expr ast.Expr) string {
	switch expr := expr.(type) {
	case *ast.Ident:
		return expr.Name
	case *ast.StarExpr:
		return typeName(expr.X)
	case *ast.IndexExpr:
		return typeName(expr.X)
	case *ast.SelectorExpr:
		return typeName(expr.X) + "." + expr.Sel.Name
	}
	return ""
}

var (
	tableRow = regexp.MustCompile(`^\| *(.*?) *\| *(.*?) *\| *(.*?) *\|$`)
	code     = regexp.MustCompile("`([^`]*)`")
)

const (
	none   = "no"
	notYet = "not yet: "
)

// faults returns what is wrong with the tables of a page. The title of a section names types of Redisson. Its tables
// have methods of these types, what we have in their place, and remarks.
func faults(page string, methods []string, api declared) (found []string) {
	add := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	told := make(map[string]bool) // of which methods
	var types []string
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "#") {
			types = quoted(line)
		}
		cells := tableRow.FindStringSubmatch(strings.TrimSpace(line))
		if cells == nil || len(types) == 0 {
			continue
		}
		for _, name := range quoted(cells[1]) {
			known := false
			for _, method := range methods {
				in, form, _ := strings.Cut(method, " ")
				bare, _, _ := strings.Cut(form, "(")
				if slices.Contains(types, in) && (form == name || bare == name) {
					told[method], known = true, true
				}
			}
			if !known {
				add("%v have no method %s", types, name)
			}
		}
		ours, later, _ := strings.Cut(cells[2], notYet)
		for _, name := range quoted(ours) {
			if !api.has(name) {
				add("package channelapi has no %s; write %q before it if it is to come", name, notYet)
			}
		}
		for _, name := range quoted(later) {
			if api.has(name) {
				add("package channelapi has %s, so remove %q", name, notYet)
			}
		}
		if len(quoted(cells[1])) > 0 && len(quoted(cells[2])) == 0 && (cells[2] != none || cells[3] == "") {
			add("%s: write what we have, or %q and the reason", cells[1], none)
		}
	}
	for _, method := range methods {
		if !told[method] {
			add("%s is missing", method)
		}
	}
	return found
}

func quoted(text string) (names []string) {
	for _, found := range code.FindAllStringSubmatch(text, -1) {
		names = append(names, found[1])
	}
	return names
}

func TestFaultsOfThePageAreFound(t *testing.T) {
	const good = "# No table\n| `x` | | |\n## `RLock`, `RLockAsync`\n| Redisson | lockagent | differences |\n" +
		"|---|---|---|\n" +
		"| `lock()`, `lockAsync()` | `Lock.Acquire`, `Wait` | `later()` |\n" +
		"| `lock(long)` | `Grant.Token`; not yet: `FairLock` | |\n" +
		"| `isLocked` | not yet: `Status.Locked` | |\n| `newCondition()` | no | there is none |\n## `RObject`\n" +
		"| `getName()` | `Lock.Name` | |\n"
	methods := []string{
		"RLock lock()", "RLockAsync lockAsync()", "RLock lock(long)", "RLock isLocked()", "RLock isLocked(int)",
		"RLock newCondition()", "RObject getName()",
	}
	api := declared{
		"Lock": {"handle"}, "handle.Acquire": nil, "Lock.Name": nil, "Wait": nil, "Status": nil,
		"Grant": {"lockagent.Grant"}, "lockagent.Grant.Token": nil,
	}
	if found := faults(good, methods, api); len(found) != 0 {
		t.Errorf("%q", found)
	}
	for old, change := range map[string]struct{ to, fault string }{
		"`lock()`, ":     {"", "RLock lock() is missing"},
		"`lockAsync()`":  {"`lockAsync(long)`", "have no method lockAsync(long)"},
		"`isLocked`":     {"`isLocked()`", "RLock isLocked(int) is missing"},
		"## `RObject`":   {"## `RLock`", "RObject getName() is missing"},
		"`Wait`":         {"`Waits`", "has no Waits"},
		"`Grant.Token`":  {"`Grant.Tokens`", "has no Grant.Tokens"},
		"Lock.Acquire":   {"Status.Acquire", "has no Status.Acquire"},
		"`FairLock`":     {"`Lock.Acquire`", "has Lock.Acquire, so remove"},
		"| no | there":   {"| later | there", "write what we have"},
		"there is none ": {"", "write what we have"},
	} {
		if found := faults(
			strings.Replace(good, old, change.to, 1), methods, api,
		); !strings.Contains(strings.Join(found, "\n"), change.fault) {
			t.Errorf("with %q for %q %q is not found, but %q", change.to, old, change.fault, found)
		}
	}
}

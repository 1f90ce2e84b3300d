package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// pkg is a package as `go list` describes it.
type pkg struct {
	ImportPath   string
	Doc          string
	Standard     bool
	GoFiles      []string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Export       string // file with its types, if asked for
}

// tree has the packages of the module and all that they depend on, by path.
type tree map[string]*pkg

// list runs `go list` in the root of the module.
func list(args ...string) (tree, error) {
	cmd := exec.Command(
		"go",
		append(
			[]string{"list", "-deps", "-json=ImportPath,Doc,Standard,GoFiles,Imports,TestImports,XTestImports,Export"}, args...,
		)...,
	)
	cmd.Dir = "../.."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, errors.New("go list: " + err.Error() + "\n" + stderr.String())
	}
	found := make(tree)
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(pkg)
		if err := dec.Decode(p); err == io.EOF {
			return found, nil
		} else if err != nil {
			return nil, err
		}
		found[p.ImportPath] = p
	}
}

var listed = sync.OnceValues(func() (tree, error) { return list("./...") })

// load returns the module as it is.
func load(t *testing.T) tree {
	t.Helper()
	found, err := listed()
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func ours(path string) bool { return path == module || strings.HasPrefix(path, module+"/") }

// match reports whether a package matches a pattern of [rule]. As for the go
// command, "x/..." matches x as well.
func match(pattern string, p *pkg) bool {
	if pattern == "std" {
		return p.Standard
	}
	expr, ok := expressions.Load(pattern)
	if !ok {
		expr, _ = expressions.LoadOrStore(pattern, expression(pattern))
	}
	return expr.(*regexp.Regexp).MatchString(p.ImportPath)
}

// expressions are those of patterns that were looked for before: every rule looks at every package.
var expressions sync.Map

func expression(pattern string) *regexp.Regexp {
	if rest, of := strings.CutPrefix(pattern, "."); of {
		pattern = module + rest
	}
	expr := regexp.QuoteMeta(pattern)
	if head, all := strings.CutSuffix(expr, `/\.\.\.`); all {
		expr = head + `(/.*)?`
	}
	return regexp.MustCompile(`^` + strings.ReplaceAll(expr, `\.\.\.`, `.*`) + `$`)
}

func matchAny(patterns []string, p *pkg) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return match(pattern, p) })
}

// forbids reports whether the rule keeps a package that it binds from importing p.
func (r *rule) forbids(p *pkg) bool {
	return matchAny(r.never, p) || r.only != nil && !matchAny(r.only, p)
}

// breaches returns a sentence for each package that breaks the rule, with the way
// from it to what it must not import.
func (r *rule) breaches(all tree) []string {
	var found []string
	for path, p := range all {
		if !ours(path) || !matchAny(r.of, p) || matchAny(r.but, p) {
			continue
		}
		if chain := r.offence(all, p); chain != nil {
			found = append(found, strings.Join(chain, "\n\timports "))
		}
	}
	slices.Sort(found)
	return found
}

// offence returns the shortest way from p to a package that it must not import, or
// nil.
func (r *rule) offence(all tree, p *pkg) []string {
	imports := p.Imports
	if r.reach == withTests {
		imports = slices.Concat(p.Imports, p.TestImports, p.XTestImports)
	}
	from := map[string]string{p.ImportPath: ""}
	var next []string
	visit := func(by string, imports []string) {
		for _, path := range imports {
			if _, seen := from[path]; !seen {
				from[path] = by
				next = append(next, path)
			}
		}
	}
	for visit(p.ImportPath, imports); len(next) > 0; next = next[1:] {
		q := all[next[0]]
		if q == nil { // imported by a test alone, so not listed itself
			q = &pkg{ImportPath: next[0], Standard: !strings.Contains(strings.Split(next[0], "/")[0], ".")}
		}
		if r.forbids(q) {
			var chain []string
			for path := q.ImportPath; path != ""; path = from[path] {
				chain = append(chain, path)
			}
			slices.Reverse(chain)
			return chain
		}
		if r.reach == indirect {
			visit(q.ImportPath, q.Imports)
		}
	}
	return nil
}

// undocumented returns our packages without a package comment. One with nothing
// but tests needs none.
func undocumented(all tree) []string {
	var found []string
	for path, p := range all {
		if ours(path) && len(p.GoFiles) > 0 && p.Doc == "" {
			found = append(found, path)
		}
	}
	slices.Sort(found)
	return found
}

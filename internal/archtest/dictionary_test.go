package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"
)

// dictionary is where the words are defined, under a heading of its own.
const dictionary, wordsHeading = "doc.go", "# Words"

// named are the packages whose exported names keep to the dictionary.
var named = []string{".", "actor", "channelapi"}

// meaning is the one thing that a word stands for in exported names.
type meaning struct {
	forms string            // of the word
	names map[string]string // that have the word, and what each says with it
}

// meanings are those of words that would else stand for many things.
var meanings = map[string]meaning{
	"pass": {"pass passes passed passing", map[string]string{
		"MessagePassed": "the store has passed the lock to the tenure",
		"PassLease":     "the lease of a tenure that begins by a pass",
		"Passed":        "a release has passed the lock",
	}},
	"rest": {"rest rests rested resting", map[string]string{
		"ByRest":      "the lock rested before the hold",
		"HolderRests": "the lock may rest in the agent of its holder",
		"NoRest":      "the lock does not rest",
		"Resting":     "the lock rests",
		"Rests":       "the lock may rest",
	}},
	"record": {"record records recorded recorder", map[string]string{
		"Record":            "takes an event",
		"Recorder":          "takes events",
		"SelectiveRecorder": "takes some events",
	}},
	"over": {"over", map[string]string{
		"Over": "the request or its hold is over",
	}},
	"tell": {"tell tells told telling", nil},
}

// Each word of the dictionary has one entry, and an exported name with such a word says with it what the entry says.
func TestDictionary(t *testing.T) {
	for _, lapse := range misnomers(os.DirFS("../.."), named, meanings) {
		t.Error(lapse)
	}
}

func TestMisnomersAreFound(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	tree := fstest.MapFS{
		"doc.go": file("// Package a is.\n//\n// # Words\n//\n//   - A pass is.\n//   - A pass is not.\n//\n" +
			"// # Usage\n//\n//   - A rest is.\npackage a\n"),
		"b.go":      file("package a\n\ntype Bypass struct{ Passes, Passed, passes int }\n\nfunc (Bypass) PassOver() {}\n"),
		"b_test.go": file("package a\n\nfunc TestPass() {}\n"),
	}
	words := map[string]meaning{
		"pass": {"pass passes passed", map[string]string{"Passed": "yes", "PassLease": "gone"}}, "rest": {"rest", nil},
	}
	got := misnomers(tree, []string{"."}, words)
	want := []string{
		`b.go: PassOver has the word "pass": use another word, or list what it says with this one`,
		`b.go: Passes has the word "pass": use another word, or list what it says with this one`,
		`doc.go has 0 entries for "rest", want one`,
		`doc.go has 2 entries for "pass", want one`,
		`no exported name is PassLease, which is listed for "pass"`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

var entry = regexp.MustCompile(`(?m)^\s+- (?:(?:a|an|the|to) )?([a-z-]+)`)

// misnomers returns which words do not have one entry in the dictionary, and which names do not keep to it.
func misnomers(tree fs.FS, packages []string, words map[string]meaning) (found []string) {
	text, err := fs.ReadFile(tree, dictionary)
	if err != nil {
		return []string{err.Error()}
	}
	comments := strings.ReplaceAll(string(text), "//", "")
	_, section, _ := strings.Cut(comments, wordsHeading)
	section, _, _ = strings.Cut(section, "\n # ")
	entries := make(map[string]int)
	for _, e := range entry.FindAllStringSubmatch(strings.ToLower(section), -1) {
		entries[e[1]]++
	}
	for word := range words {
		entries[word] += 0
	}
	for word, n := range entries {
		if n != 1 {
			found = append(found, fmt.Sprintf("%s has %d entries for %q, want one", dictionary, n, word))
		}
	}
	seen := make(map[string]bool)
	for _, name := range packages {
		files, err := fs.Glob(tree, path.Join(name, "*.go"))
		if err != nil {
			return append(found, err.Error())
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			exported, err := exportedIn(tree, file)
			if err != nil {
				return append(found, err.Error())
			}
			for _, id := range exported {
				seen[id] = true
				for word, m := range words {
					if _, listed := m.names[id]; !listed && m.in(id) {
						const text = "%s: %s has the word %q: use another word, or list what it says with this one"
						found = append(found, fmt.Sprintf(text, file, id, word))
					}
				}
			}
		}
	}
	for word, m := range words {
		for id := range m.names {
			if !seen[id] {
				found = append(found, fmt.Sprintf("no exported name is %s, which is listed for %q", id, word))
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// in reports whether a name has a form of the word.
func (m *meaning) in(id string) bool {
	forms := strings.Fields(m.forms)
	start := 0
	for i, r := range id + "." {
		if i > 0 && (r == '.' || unicode.IsUpper(r)) {
			if slices.Contains(forms, strings.ToLower(id[start:i])) {
				return true
			}
			start = i
		}
	}
	return false
}

// exportedIn returns the exported names that a file declares: also those of fields and methods.
func exportedIn(tree fs.FS, name string) ([]string, error) {
	source, err := fs.ReadFile(tree, name)
	if err != nil {
		return nil, err
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ids := make(map[string]bool)
	add := func(names ...*ast.Ident) {
		for _, id := range names {
			if id.IsExported() {
				ids[id.Name] = true
			}
		}
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			add(d.Name)
		case *ast.GenDecl:
			ast.Inspect(d, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.TypeSpec:
					add(n.Name)
				case *ast.ValueSpec:
					add(n.Names...)
				case *ast.Field:
					add(n.Names...)
				}
				return true
			})
		}
	}
	return slices.Collect(maps.Keys(ids)), nil
}

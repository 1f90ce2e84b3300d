package archtest

import (
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"strings"
	"testing"
)

const protoactor = "github.com/asynkron/protoactor-go"

// Types of the actor library in what package actor exports would make it part of
// everybody's program for good.
func TestActorExportsNothingOfProtoactor(t *testing.T) {
	const path = module + "/actor"
	exports, err := list("-export", "./actor")
	if err != nil {
		t.Fatal(err)
	}
	lookup := func(path string) (io.ReadCloser, error) {
		p := exports[path]
		if p == nil || p.Export == "" {
			return nil, errors.New("no types of " + path)
		}
		return os.Open(p.Export)
	}
	actor, err := importer.ForCompiler(token.NewFileSet(), "gc", lookup).Import(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(leaks(actor, "context")) == 0 {
		t.Fatal("not even contexts were found in what package actor exports; were its types read?")
	}
	for _, l := range leaks(actor, protoactor) {
		t.Error(l)
	}
}

// leaks returns where the exported part of a package mentions types of another
// module.
func leaks(of *types.Package, foreign string) []string {
	f := &leakFinder{home: of, foreign: foreign, seen: make(map[types.Type]bool)}
	for _, name := range of.Scope().Names() {
		if obj := of.Scope().Lookup(name); obj.Exported() {
			f.visit(name, obj.Type())
		}
	}
	return f.found
}

type leakFinder struct {
	home    *types.Package
	foreign string
	seen    map[types.Type]bool
	found   []string
}

// visit looks through everything that somebody who has a value of the type, or its
// name, can reach. where is the way there.
func (f *leakFinder) visit(where string, t types.Type) {
	if f.seen[t] {
		return
	}
	f.seen[t] = true
	switch t := t.(type) {
	case *types.Alias:
		f.named(where, t.Obj())
		f.visit(where, t.Rhs())
	case *types.Named:
		f.named(where, t.Obj())
		for arg := range t.TypeArgs().Types() {
			f.visit(where, arg)
		}
		for param := range t.TypeParams().TypeParams() {
			f.visit(where, param.Constraint())
		}
		if t.Obj().Pkg() == f.home {
			f.visit(where, t.Underlying())
			for method := range types.NewMethodSet(types.NewPointer(t)).Methods() {
				if method.Obj().Exported() {
					f.visit(where+"."+method.Obj().Name(), method.Type())
				}
			}
		}
	case *types.Pointer:
		f.visit(where, t.Elem())
	case *types.Slice:
		f.visit(where, t.Elem())
	case *types.Array:
		f.visit(where, t.Elem())
	case *types.Chan:
		f.visit(where, t.Elem())
	case *types.Map:
		f.visit(where, t.Key())
		f.visit(where, t.Elem())
	case *types.Tuple:
		for v := range t.Variables() {
			f.visit(where, v.Type())
		}
	case *types.Signature:
		for param := range t.TypeParams().TypeParams() {
			f.visit(where, param.Constraint())
		}
		f.visit(where, t.Params())
		f.visit(where, t.Results())
	case *types.Struct:
		for field := range t.Fields() {
			if field.Exported() || field.Embedded() {
				f.visit(where+"."+field.Name(), field.Type())
			}
		}
	case *types.Interface:
		for embedded := range t.EmbeddedTypes() {
			f.visit(where, embedded)
		}
		for method := range t.ExplicitMethods() {
			if method.Exported() {
				f.visit(where+"."+method.Name(), method.Type())
			}
		}
	case *types.Union:
		for term := range t.Terms() {
			f.visit(where, term.Type())
		}
	}
}

func (f *leakFinder) named(where string, obj *types.TypeName) {
	if p := obj.Pkg(); p != nil && (p.Path() == f.foreign || strings.HasPrefix(p.Path(), f.foreign+"/")) {
		f.found = append(f.found, fmt.Sprintf("%s.%s mentions %s.%s", f.home.Name(), where, p.Path(), obj.Name()))
	}
}

func TestLeaksAreFound(t *testing.T) {
	for name, source := range map[string]string{
		"parameter":             `func F(foreign.PID) {}`,
		"result":                `func F() (int, *foreign.PID) { return 0, nil }`,
		"variable":              `var V = foreign.New()`,
		"constant":              `const C = foreign.One`,
		"field":                 `type T struct{ P *foreign.PID }`,
		"embedded":              `type T struct{ foreign.PID }`,
		"method":                `type T struct{}; func (*T) M(foreign.Context) {}`,
		"interface method":      `type T interface{ M(foreign.Context) }`,
		"embedded interface":    `type T interface{ foreign.Context }`,
		"alias":                 `type T = foreign.PID`,
		"hidden alias":          `type t = foreign.PID; func F(t) {}`,
		"alias to a clean type": `func F(foreign.Number) {}`,
		"definition":            `type T []foreign.PID`,
		"channel":               `func F() <-chan foreign.PID { return nil }`,
		"map":                   `type T map[string]foreign.PID`,
		"function":              `type T func(...foreign.PID)`,
		"constraint":            `func F[C foreign.Context](C) {}`,
		"type argument":         `type box[T any] struct{}; func F(box[foreign.PID]) {}`,
		"hidden type that is handed": `type t struct{}; func (t) M() foreign.PID { return foreign.PID{} }; ` +
			`func F() t { return t{} }`,
		"promoted":       `type t struct{}; func (t) M(foreign.Context) {}; type T struct{ t }`,
		"promoted field": `type t struct{ P foreign.PID }; type T struct{ t }`,
		"union":          `type T interface{ int | foreign.One_ }`,
	} {
		if found := leaks(check(t, source), "foreign"); len(found) == 0 {
			t.Errorf("%s: nothing was found in %q", name, source)
		}
	}
	for name, source := range map[string]string{
		"hidden function": `func f(foreign.PID) {}`,
		"hidden field":    `type T struct{ p *foreign.PID }`,
		"hidden type":     `type t struct{}; func (t) Receive(foreign.Context) {}; type T struct{ t *t; n int }`,
		"hidden method":   `type T struct{}; func (*T) m(foreign.Context) {}`,
		"body":            `func F() { foreign.New() }`,
		"recursion":       `type T struct{ Next *T; All []T }; func (T) M() T { return T{} }`,
	} {
		if found := leaks(check(t, source), "foreign"); len(found) != 0 {
			t.Errorf("%s: %q was found in %q", name, found, source)
		}
	}
}

// check returns the types of a source that may use a package foreign.
func check(t *testing.T, source string) *types.Package {
	t.Helper()
	const foreign = `package foreign
		type PID struct{}
		type Context interface{ Self() PID }
		type Number = int
		type One_ int
		const One One_ = 1
		func New() *PID { return nil }`
	fset := token.NewFileSet()
	compile := func(path, source string, imports types.Importer) *types.Package {
		file, err := parser.ParseFile(fset, path+".go", source, 0)
		if err != nil {
			t.Fatal(err)
		}
		config := types.Config{Importer: imports, Error: func(error) {}} // unused imports are fine
		made, _ := config.Check(path, fset, []*ast.File{file}, nil)
		return made
	}
	theirs := compile("foreign", foreign, nil)
	return compile("home", "package home; import \"foreign\"; "+source, only{theirs})
}

// only imports one package.
type only struct{ *types.Package }

func (o only) Import(string) (*types.Package, error) { return o.Package, nil }

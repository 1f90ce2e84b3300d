package channelapi_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
)

var errWork = errors.New("the work failed")

func TestDo(t *testing.T) {
	t.Run("works while the lock is held, and releases it", func(t *testing.T) {
		locks := open(t)
		for what, l := range map[string]channelapi.AnyLock{
			"Lock": locks.Lock(name), "SessionLock": openSession(t, locks, "alice").Lock(name),
		} {
			var held channelapi.Grant
			var under context.Context
			err := l.Do(t.Context(), func(ctx context.Context, g channelapi.Grant) error {
				if !g.Held() || g.Name() != name || ctx.Err() != nil {
					t.Errorf("%s: works under %+v", what, g)
				}
				held, under = g, ctx
				return nil
			})
			wantErr(t, what, err, nil)
			wantErr(t, what+": the cause of the grant", held.Cause(), channelapi.ErrReleased)
			wantErr(t, what+": the cause of the context", context.Cause(under), channelapi.ErrReleased)
			wantFree(t, locks.Lock(name))
		}
	})
	t.Run("returns what work returns", func(t *testing.T) {
		l := open(t).Lock(name)
		err := l.Do(t.Context(), func(context.Context, channelapi.Grant) error { return errWork })
		if err != errWork { //nolint:errorlint // it is not even wrapped
			t.Errorf("%v, want %v", err, errWork)
		}
		wantFree(t, l)
	})
	t.Run("returns why the lock was not granted", func(t *testing.T) {
		locks := open(t)
		hold(t, locks.Lock(name))
		err := locks.Lock(name, channelapi.Try()).Do(t.Context(), func(context.Context, channelapi.Grant) error {
			t.Error("the work was done")
			return nil
		})
		wantErr(t, "Do", err, channelapi.ErrHeld)
	})
	t.Run("releases although its context has ended", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			locks := openWith(t, channelapi.Config{Store: newFarStore()})
			ctx, change := changing(t)
			start := time.Now()
			err := locks.Lock(name).Do(ctx, func(ctx context.Context, _ channelapi.Grant) error {
				change()
				<-ctx.Done()
				return context.Cause(ctx)
			})
			wantErr(t, "Do", err, errChangedMind)
			if waited := time.Since(start); waited != 2*roundTrip {
				t.Errorf("returned after %v, want %v: it has to hear of the release", waited, 2*roundTrip)
			}
			wantFree(t, locks.Lock(name))
		})
	})
	t.Run("releases when work panics or ends its goroutine", func(t *testing.T) {
		l := open(t).Lock(name)
		for _, end := range []func(){func() { panic("oops") }, runtime.Goexit} {
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer func() { _ = recover() }()
				_ = l.Do(context.Background(), func(context.Context, channelapi.Grant) error {
					end()
					return nil
				})
				t.Error("the panic is gone")
			}()
			<-done
			wantFree(t, l)
		}
	})
	t.Run("does not mind if work has released the lock", func(t *testing.T) {
		l := open(t).Lock(name)
		err := l.Do(
			t.Context(), func(ctx context.Context, g channelapi.Grant) error { return g.Release(context.WithoutCancel(ctx)) },
		)
		wantErr(t, "Do", err, nil)
		wantFree(t, l)
	})
	t.Run("does not mind if the release is not confirmed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := newFarStore()
			l := openWith(t, channelapi.Config{Store: store}).Lock(name)
			err := l.Do(t.Context(), func(context.Context, channelapi.Grant) error {
				store.cut.Store(true)
				return nil
			})
			wantErr(t, "Do", err, nil)
			store.cut.Store(false)
			time.Sleep(5 * time.Second)
			wantFree(t, l)
		})
	})
}

// Whoever waits for work that has ended its goroutine does not take that for success. A new function that runs work
// needs a case.
func TestWorkThatEndsItsGoroutine(t *testing.T) {
	locks := open(t)
	l := locks.Lock(name)
	quit := func(context.Context, channelapi.Grant) error {
		runtime.Goexit()
		return nil
	}
	quitAll := func(context.Context, []channelapi.Grant) error {
		runtime.Goexit()
		return nil
	}
	cases := map[string]func() <-chan error{
		"handle.DoAsync": func() <-chan error { return l.DoAsync(t.Context(), quit) },
		"DoAllAsync":     func() <-chan error { return channelapi.DoAllAsync(t.Context(), quitAll, l, locks.Lock("other")) },
		"permits.DoAsync": func() <-chan error {
			p := locks.Semaphore("seats")
			if _, err := p.TrySetPermits(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			return p.DoAsync(t.Context(), 1, quit)
		},
		"handle.Do":  nil, // their callers end, too
		"permits.Do": nil,
		"DoAll":      nil,
	}
	for _, f := range takingFunctions(t) {
		start, known := cases[f]
		if !known {
			t.Errorf("%s runs a function of its caller, and has no case", f)
		}
		if start == nil {
			continue
		}
		done := start()
		if err, ok := <-done; !errors.Is(err, channelapi.ErrGoexit) || !ok {
			t.Errorf("%s: a receive yields %v, %v", f, err, ok)
		}
		if _, ok := <-done; ok {
			t.Errorf("%s: a second value", f)
		}
		wantFree(t, l)
	}
}

// takingFunctions are the exported functions and methods of package channelapi that take a function.
func takingFunctions(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() || strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, param := range f.Type.Params.List {
				if _, ok := param.Type.(*ast.FuncType); !ok {
					continue
				}
				text := f.Name.Name
				if f.Recv != nil {
					text = strings.TrimPrefix(types.ExprString(f.Recv.List[0].Type), "*") + "." + text
				}
				names = append(names, text)
			}
		}
	}
	if len(names) == 0 {
		t.Fatal("no function was found")
	}
	return names
}

func TestDoTellsOfALoss(t *testing.T) {
	t.Run("that ended the work", func(t *testing.T) {
		l := open(t).Lock(name)
		err := l.Do(t.Context(), func(ctx context.Context, _ channelapi.Grant) error {
			if _, err := l.Break(ctx, ""); err != nil {
				return err
			}
			<-ctx.Done()
			return context.Cause(ctx)
		})
		wantErr(t, "Do", err, channelapi.ErrLost)
		if strings.Count(err.Error(), "broke") != 1 {
			t.Errorf("%q does not say it once", err)
		}
	})
	t.Run("that the work did not mind", func(t *testing.T) {
		l := open(t).Lock(name)
		for _, result := range []error{nil, errWork, context.Canceled} {
			err := l.Do(t.Context(), func(context.Context, channelapi.Grant) error {
				if _, err := l.Break(t.Context(), ""); err != nil {
					t.Error(err)
				}
				return result
			})
			if result != nil {
				wantErr(t, "Do", err, result)
			}
			if lost, ok := errors.AsType[*channelapi.LostError](err); !ok || lost.Reason != channelapi.LostBroken {
				t.Errorf("%v, want that it was broken", err)
			}
		}
	})
	t.Run("that only the store knows of", func(t *testing.T) {
		store := memstore.New()
		err := openOver(t, store).Lock(name).Do(t.Context(), func(context.Context, channelapi.Grant) error {
			store.PlantHolder(name, "another program", 1, time.Minute)
			return nil
		})
		if lost, ok := errors.AsType[*channelapi.LostError](err); !ok || lost.Reason != channelapi.LostDenied {
			t.Errorf("%v, want that the store denied it", err)
		}
	})
}

func TestDoAsync(t *testing.T) {
	l := open(t).Lock(name)
	begun, finish := make(chan struct{}), make(chan struct{})
	done := l.DoAsync(t.Context(), func(context.Context, channelapi.Grant) error {
		close(begun)
		<-finish
		return errWork
	})
	if cap(done) != 1 {
		t.Errorf("the channel has capacity %d, want 1", cap(done))
	}
	<-begun
	pending(t, done)
	close(finish)
	wantErr(t, "DoAsync", <-done, errWork)
	wantClosed(t, done)
	wantFree(t, l)
}

func TestDoAll(t *testing.T) {
	nothing := func(context.Context, []channelapi.Grant) error { return nil }
	t.Run("works while all locks are held, and releases them", func(t *testing.T) {
		locks := open(t)
		a, b := locks.Lock("a"), locks.Lock("b")
		var held []channelapi.Grant
		err := channelapi.DoAll(t.Context(), func(ctx context.Context, grants []channelapi.Grant) error {
			held = grants
			if ctx.Err() != nil || !grants[0].Held() || !grants[1].Held() || grants[0].Name() != "b" || grants[1].Name() != "a" {
				t.Errorf("works under %+v", grants)
			}
			return errWork
		}, b, a)
		wantErr(t, "DoAll", err, errWork)
		for _, g := range held {
			wantErr(t, "Cause", g.Cause(), channelapi.ErrReleased)
		}
		wantErr(t, "DoAllAsync", <-channelapi.DoAllAsync(t.Context(), nothing, a, b), nil)
		wantFree(t, a)
		wantFree(t, b)
	})
	t.Run("returns why a lock was not granted", func(t *testing.T) {
		locks := open(t)
		hold(t, locks.Lock("b"))
		err := channelapi.DoAll(t.Context(), nothing, locks.Lock("a"), locks.Lock("b", channelapi.Try()))
		wantErr(t, "DoAll", err, channelapi.ErrHeld)
		unlock(t, hold(t, locks.Lock("a")))
	})
	t.Run("ends the work with any of the holds", func(t *testing.T) {
		for _, broken := range []string{"a", "b", "c"} {
			locks := open(t)
			err := channelapi.DoAll(t.Context(), func(ctx context.Context, _ []channelapi.Grant) error {
				if _, err := locks.Lock(broken).Break(t.Context(), ""); err != nil {
					return err
				}
				<-ctx.Done()
				if lost, ok := errors.AsType[*channelapi.LostError](context.Cause(ctx)); !ok || string(lost.Name) != broken {
					t.Errorf("the work ended because of %v, want the loss of %q", context.Cause(ctx), broken)
				}
				return nil
			}, locks.Lock("a"), locks.Lock("b"), locks.Lock("c"))
			wantErr(t, "DoAll", err, channelapi.ErrLost)
			for _, n := range []string{"a", "b", "c"} {
				wantFree(t, locks.Lock(n))
			}
		}
	})
}

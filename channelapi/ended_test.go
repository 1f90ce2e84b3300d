package channelapi_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent/channelapi"
)

// endings are the calls whose context may end while they wait, by their names. The store takes a second to answer, and
// somebody else has the lock that is busy.
var endings = map[string]func(t *testing.T, locks *channelapi.Locks) func(context.Context) error{
	"handle.Acquire": func(_ *testing.T, locks *channelapi.Locks) func(context.Context) error {
		return func(ctx context.Context) error { return errorOf(locks.Lock(busy).Acquire(ctx)) }
	},
	"handle.TryAcquire": func(_ *testing.T, locks *channelapi.Locks) func(context.Context) error {
		return func(ctx context.Context) error { return errorOf(locks.Lock(name).TryAcquire(ctx)) }
	},
	"handle.AcquireAsync": func(_ *testing.T, locks *channelapi.Locks) func(context.Context) error {
		return func(ctx context.Context) error { return (<-locks.Lock(busy).AcquireAsync(ctx)).Err() }
	},
	"handle.Turns": func(_ *testing.T, locks *channelapi.Locks) func(context.Context) error {
		return func(ctx context.Context) error { return (<-locks.Lock(busy).Turns(ctx)).Err() }
	},
	"handle.Do": func(_ *testing.T, locks *channelapi.Locks) func(context.Context) error {
		return func(ctx context.Context) error { return locks.Lock(busy).Do(ctx, neverDone) }
	},
	"handle.DoAsync": func(_ *testing.T, locks *channelapi.Locks) func(context.Context) error {
		return func(ctx context.Context) error { return <-locks.Lock(busy).DoAsync(ctx, neverDone) }
	},
	"handle.Status": func(_ *testing.T, locks *channelapi.Locks) func(context.Context) error {
		return func(ctx context.Context) error { return errorOf(locks.Lock(name).Status(ctx)) }
	},
	"handle.Break": func(_ *testing.T, locks *channelapi.Locks) func(context.Context) error {
		return func(ctx context.Context) error { return errorOf(locks.Lock(name).Break(ctx, "")) }
	},
	"First": func(_ *testing.T, locks *channelapi.Locks) func(context.Context) error {
		return func(ctx context.Context) error { return errorOf(channelapi.First(ctx, locks.Lock(busy))) }
	},
	"FirstAsync": func(_ *testing.T, locks *channelapi.Locks) func(context.Context) error {
		return func(ctx context.Context) error { return (<-channelapi.FirstAsync(ctx, locks.Lock(busy))).Err() }
	},
	"All": func(_ *testing.T, locks *channelapi.Locks) func(context.Context) error {
		return func(ctx context.Context) error {
			return errorOf(channelapi.All(ctx, locks.Lock(name), locks.Lock(busy)))
		}
	},
	"AllAsync": func(_ *testing.T, locks *channelapi.Locks) func(context.Context) error {
		return func(ctx context.Context) error {
			return (<-channelapi.AllAsync(ctx, locks.Lock(name), locks.Lock(busy))).Err()
		}
	},
	"DoAll": func(_ *testing.T, locks *channelapi.Locks) func(context.Context) error {
		return func(ctx context.Context) error { return channelapi.DoAll(ctx, neverAllDone, locks.Lock(busy)) }
	},
	"DoAllAsync": func(_ *testing.T, locks *channelapi.Locks) func(context.Context) error {
		return func(ctx context.Context) error { return <-channelapi.DoAllAsync(ctx, neverAllDone, locks.Lock(busy)) }
	},
	"Grant.Release": func(t *testing.T, locks *channelapi.Locks) func(context.Context) error {
		g := hold(t, locks.Lock(name, channelapi.NoRest()))
		return g.Release
	},
	"Grant.Extend": func(t *testing.T, locks *channelapi.Locks) func(context.Context) error {
		g := hold(t, locks.Lock(name, channelapi.Lease(time.Minute)))
		return func(ctx context.Context) error { return g.Extend(ctx, 2*time.Minute) }
	},
	"SessionLock.Release": func(t *testing.T, locks *channelapi.Locks) func(context.Context) error {
		l := openSession(t, locks, "alice").Lock(name, channelapi.NoRest())
		hold(t, l)
		return l.Release
	},
	"Session.Close": func(t *testing.T, locks *channelapi.Locks) func(context.Context) error {
		s := openSession(t, locks, "alice")
		hold(t, s.Lock(name))
		return s.Close
	},
	"Locks.Shutdown": func(_ *testing.T, locks *channelapi.Locks) func(context.Context) error { return locks.Shutdown },
	"permits.Acquire": func(_ *testing.T, locks *channelapi.Locks) func(context.Context) error {
		return func(ctx context.Context) error { return errorOf(locks.Semaphore("seats").Acquire(ctx, 1)) }
	},
	"permits.AcquireAsync": func(_ *testing.T, locks *channelapi.Locks) func(context.Context) error {
		return func(ctx context.Context) error { return (<-locks.Semaphore("seats").AcquireAsync(ctx, 1)).Err() }
	},
	"permits.TryAcquire": func(_ *testing.T, locks *channelapi.Locks) func(context.Context) error {
		return func(ctx context.Context) error { return errorOf(locks.Semaphore("seats").TryAcquire(ctx, 1)) }
	},
	"permits.Turns": func(_ *testing.T, locks *channelapi.Locks) func(context.Context) error {
		return func(ctx context.Context) error { return (<-locks.Semaphore("seats").Turns(ctx, 1)).Err() }
	},
	"permits.Do": func(_ *testing.T, locks *channelapi.Locks) func(context.Context) error {
		return func(ctx context.Context) error { return locks.Semaphore("seats").Do(ctx, 1, neverDone) }
	},
	"permits.DoAsync": func(_ *testing.T, locks *channelapi.Locks) func(context.Context) error {
		return func(ctx context.Context) error { return <-locks.Semaphore("seats").DoAsync(ctx, 1, neverDone) }
	},
	"permits.Status": func(_ *testing.T, locks *channelapi.Locks) func(context.Context) error {
		return func(ctx context.Context) error { return errorOf(locks.Semaphore("seats").Status(ctx)) }
	},
	"permits.TrySetPermits": func(_ *testing.T, locks *channelapi.Locks) func(context.Context) error {
		return func(ctx context.Context) error { return errorOf(locks.Semaphore("seats").TrySetPermits(ctx, 1)) }
	},
	"permits.AddPermits": func(_ *testing.T, locks *channelapi.Locks) func(context.Context) error {
		return func(ctx context.Context) error { return errorOf(locks.Semaphore("seats").AddPermits(ctx, 1)) }
	},
	"permits.Delete": func(_ *testing.T, locks *channelapi.Locks) func(context.Context) error {
		return func(ctx context.Context) error { return errorOf(locks.Semaphore("seats").Delete(ctx)) }
	},
	"Semaphore.Drain": func(_ *testing.T, locks *channelapi.Locks) func(context.Context) error {
		return func(ctx context.Context) error { return errorOf(locks.Semaphore("seats").Drain(ctx)) }
	},
	"Permits.SetPermits": func(_ *testing.T, locks *channelapi.Locks) func(context.Context) error {
		return func(ctx context.Context) error { return locks.Permits("seats").SetPermits(ctx, 1) }
	},
	"Permits.ReleaseID": func(_ *testing.T, locks *channelapi.Locks) func(context.Context) error {
		return func(ctx context.Context) error { return locks.Permits("seats").ReleaseID(ctx, permitID) }
	},
	"Permits.ExtendID": func(_ *testing.T, locks *channelapi.Locks) func(context.Context) error {
		return func(ctx context.Context) error { return locks.Permits("seats").ExtendID(ctx, permitID, time.Minute) }
	},
	"Latch.Set": func(_ *testing.T, locks *channelapi.Locks) func(context.Context) error {
		return func(ctx context.Context) error { return locks.Latch("start").Set(ctx, 1) }
	},
	"Latch.CountDown": func(_ *testing.T, locks *channelapi.Locks) func(context.Context) error {
		return func(ctx context.Context) error { return errorOf(locks.Latch("start").CountDown(ctx)) }
	},
	"Latch.Count": func(_ *testing.T, locks *channelapi.Locks) func(context.Context) error {
		return func(ctx context.Context) error { return errorOf(locks.Latch("start").Count(ctx)) }
	},
	"Latch.Delete": func(_ *testing.T, locks *channelapi.Locks) func(context.Context) error {
		return func(ctx context.Context) error { return errorOf(locks.Latch("start").Delete(ctx)) }
	},
	"Latch.Await": func(t *testing.T, locks *channelapi.Locks) func(context.Context) error {
		setLatch(t, locks)
		return locks.Latch("start").Await
	},
	"Latch.AwaitAsync": func(t *testing.T, locks *channelapi.Locks) func(context.Context) error {
		setLatch(t, locks)
		return func(ctx context.Context) error { return <-locks.Latch("start").AwaitAsync(ctx) }
	},
}

// carriers are the calls that use the context for its values only, or ask nobody if it has ended. The calls of endings
// are made of them.
const carriers = "Grant.Context Grant.ReleaseAsync Grant.ExtendAsync SessionLock.ReleaseAsync handle.StatusAsync " +
	"handle.BreakAsync Lock.Locker permits.StatusAsync permits.TrySetPermitsAsync permits.AddPermitsAsync " +
	"permits.DeleteAsync Semaphore.DrainAsync Permits.SetPermitsAsync Permits.ReleaseIDAsync Permits.ExtendIDAsync " +
	"Latch.SetAsync Latch.CountDownAsync Latch.CountAsync Latch.DeleteAsync"

const (
	busy     = "busy"
	permitID = "0123456789abcdef0123456789abcdef" // of no permit
)

func errorOf[T any](_ T, err error) error { return err }

func neverDone(context.Context, channelapi.Grant) error { return errWork }

func neverAllDone(context.Context, []channelapi.Grant) error { return errWork }

func setLatch(t *testing.T, locks *channelapi.Locks) {
	t.Helper()
	if err := locks.Latch("start").Set(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
}

// A call that ended because its context did says so in both ways: by the cause, and as package context does.
func TestEndedContexts(t *testing.T) {
	calls := callsWithContext(t)
	for call := range calls {
		if endings[call] == nil && !strings.Contains(" "+carriers+" ", " "+call+" ") {
			t.Errorf("the table of endings has no %s", call)
		}
	}
	for call, prepare := range endings {
		if !calls[call] {
			t.Errorf("there is no %s", call)
		}
		for _, ended := range []error{context.Canceled, context.DeadlineExceeded} {
			t.Run(call+" "+ended.Error(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					locks := openWith(t, channelapi.Config{Store: newFarStore()})
					hold(t, locks.Lock(busy))
					waits := prepare(t, locks)
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					if ended == context.Canceled { //nolint:errorlint // it is that of the table
						time.AfterFunc(roundTrip/4, func() { cancel(errChangedMind) })
					} else {
						var stop func()
						ctx, stop = context.WithTimeoutCause(ctx, roundTrip/4, errChangedMind)
						defer stop()
					}
					err := waits(ctx)
					for _, want := range []error{errChangedMind, ended} {
						if !errors.Is(err, want) {
							t.Errorf("%v is not %v", err, want)
						}
					}
				})
			})
		}
	}
}

// callsWithContext are the exported functions and methods of the package, and of a grant, that take a context.
func callsWithContext(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	calls := make(map[string]bool)
	for _, file := range append(files, "../grant.go") {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() || strings.HasSuffix(file, "_test.go") || len(f.Type.Params.List) == 0 {
				continue
			}
			if types.ExprString(f.Type.Params.List[0].Type) != "context.Context" {
				continue
			}
			call := f.Name.Name
			if f.Recv != nil {
				call = strings.TrimPrefix(types.ExprString(f.Recv.List[0].Type), "*") + "." + call
			}
			calls[call] = true
		}
	}
	return calls
}

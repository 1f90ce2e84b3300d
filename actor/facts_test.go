package actor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// A request that has to wait tells who has the lock.
func TestQueuedTellsTheHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, w := memstore.New(), &witness{}
		a := start(t, Config{Store: store.Share(), Recorder: w})
		b := start(t, Config{Store: store, ID: "b"})
		b.fresh.Store(6)
		far := granted(t, b.Acquire(background, "door", who("zoe")))
		bob := a.Acquire(background, "door", who("bob"))
		synctest.Wait()
		released(t, far)
		near := granted(t, bob)
		carl := a.Acquire(background, "door", who("carl"))
		synctest.Wait()
		released(t, near)
		released(t, granted(t, carl))
		var holders []string
		for _, e := range w.of(lockagent.EventQueued) {
			holders = append(holders, string(e.Owner)+" waits for "+e.Holder)
		}
		if want := []string{"bob waits for b:7", "carl waits for bob"}; !slices.Equal(holders, want) {
			t.Errorf("got %q, want %q", holders, want)
		}
	})
}

func TestThisProcess(t *testing.T) {
	p := thisProcess()
	if host, _ := os.Hostname(); p.Host != host || p.PID != os.Getpid() || !strings.HasPrefix(p.Program, "actor.test") ||
		p.User == "" || p.Command != "" {
		t.Errorf("%+v", p)
	}
}

// Each event of a request says which process is behind it: another one if the request names it, and otherwise that of
// the agent. What the application does not say of the latter is found out.
func TestEventsTellWho(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, w := memstore.New(), &witness{}
		a := start(t, Config{
			Store: store, Recorder: w, Logger: quiet, Process: lockagent.Process{Program: "billing", Command: "billing --all"},
		})
		own, other := thisProcess(), lockagent.Process{Host: "db3", Program: "backup.sh", PID: 4711, User: "root"}.Who()
		own.Program, own.Command = "billing", "billing --all"
		if started := w.of(lockagent.EventAgentStarted); len(started) != 1 || started[0].Process != own {
			t.Errorf("got %+v, want %+v", started, own)
		}
		own.Version = ""
		near := granted(t, a.Acquire(background, "door", who("ann")))
		bob := a.Acquire(background, "door", Request{Owner: "bob", Who: other})
		synctest.Wait()
		released(t, near)
		granted(t, bob)
		if r := <-a.Break("door", lockagent.PlainLock, "carl"); r.Err != nil {
			t.Fatal(r.Err)
		}
		synctest.Wait()
		want := map[lockagent.Owner]lockagent.Who{"ann": own.Who(), "bob": other}
		var kinds []string
		for _, e := range w.all() {
			if e.Owner != "" {
				kinds = append(kinds, e.Kind.String())
			}
			if e.Who != want[e.Owner] {
				t.Errorf("%v of %q: got %v", e.Kind, e.Owner, e.Who)
			}
		}
		if want := []string{"granted", "queued", "released", "granted", "broken"}; !slices.Equal(kinds, want) {
			t.Errorf("got %q, want %q", kinds, want)
		}
	})
}

// All events tell the identity that the store has then.
func TestEventsTellTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := &witness{}, &renamed{whole: memstore.New()}
		a := start(t, Config{Store: s, Recorder: w, Logger: quiet})
		s.identity = "one"
		g := granted(t, a.Acquire(background, "door", who("ann")))
		s.identity = "" // it panics
		released(t, g)
		s.identity = "two"
		closed(t, a)
		var stores []string
		for _, e := range w.all() {
			stores = append(stores, e.Kind.String()+" "+e.Store)
		}
		want := []string{"agentstarted ", "granted one", "released ", "returned ", "agentstopped two"}
		if !slices.Equal(stores, want) {
			t.Errorf("got %q, want %q", stores, want)
		}
	})
}

// renamed is a store whose identity changes. Without one it panics.
type renamed struct {
	whole
	identity string
}

func (r *renamed) Identity() string {
	if r.identity == "" {
		panic("boom")
	}
	return r.identity
}

// A break names its operator to the holder and to the log, here and elsewhere.
func TestBreakNamesItsOperator(t *testing.T) {
	for _, c := range []struct{ name, operator, want string }{
		{"a name", "Olga (ops) <olga@example.org>", "Olga (ops) <olga@example.org>"}, {"nobody", "", "b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				mine, theirs := &witness{}, &witness{}
				a := start(t, Config{Store: store.Share(), Recorder: mine})
				b := start(t, Config{Store: store, Recorder: theirs, ID: "b"})
				broken := func(g lockagent.Grant, e lockagent.Event) {
					t.Helper()
					<-g.Done()
					lostBecause(t, g.Cause(), lockagent.LostBroken)
					if lost, _ := errors.AsType[*lockagent.LostError](g.Cause()); lost.Operator != c.want || e.Operator != c.want ||
						e.Token != g.Token() {
						t.Errorf("the holder was told %v, and the log %+v; want operator %q", g.Cause(), e, c.want)
					}
				}
				g := granted(t, b.Acquire(background, "door", who("bob")))
				await(t, "break", b.Break("door", lockagent.PlainLock, c.operator))
				broken(g, theirs.of(lockagent.EventBroken)[0])

				g = granted(t, a.Acquire(background, "door", who("ann")))
				await(t, "break", b.Break("door", lockagent.PlainLock, c.operator))
				synctest.Wait()
				broken(g, mine.of(lockagent.EventBroken)[0])
				if far := theirs.of(lockagent.EventBroken)[1]; far.Operator != c.want || far.Token != 0 || far.StoreTime == 0 ||
					far.Lock != "door" {
					t.Errorf("the breaker recorded %+v", far)
				}
			})
		})
	}
	t.Run("too long", func(t *testing.T) {
		a := start(t, Config{})
		if r := await(
			t, "break", a.Break("door", lockagent.PlainLock, strings.Repeat("o", lockagent.MaxNameLen+1)),
		); !errors.Is(r.Err, lockagent.ErrBadOption) {
			t.Errorf("broken %+v", r)
		}
	})
}

// A pass carries the trace of the release to the grant of the next holder. A store that traces adds
// it.
func TestPassCarriesTheTrace(t *testing.T) {
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	synctest.Test(t, func(t *testing.T) {
		store, w := memstore.New(), &witness{}
		a := start(t, Config{Store: traced{store.Share()}})
		b := start(t, Config{Store: store, Recorder: w})
		g := granted(t, a.Acquire(background, "door", who("ann")))
		bob, cid := b.Acquire(background, "door", who("bob")), b.Acquire(background, "door", who("cid"))
		synctest.Wait()
		if err := g.Release(context.WithValue(background, traced{}, trace)); err != nil {
			t.Fatal(err)
		}
		released(t, granted(t, bob))
		released(t, granted(t, cid))
		released(t, granted(t, b.Acquire(background, "door", who("dan"))))
		var links []string
		for _, e := range w.of(lockagent.EventGranted) {
			links = append(links, e.Link)
		}
		if want := []string{trace, "", ""}; !slices.Equal(links, want) {
			t.Errorf("links %q, want %q", links, want)
		}
	})
}

// traced adds the trace in the context of a release.
type traced struct{ whole }

func (s traced) Release(ctx context.Context, req lockagent.ReleaseRequest, done func(lockagent.ReleaseReply, error)) {
	req.Trace, _ = ctx.Value(traced{}).(string)
	s.whole.Release(ctx, req, done)
}

// Several agents may have permits of a semaphore. A break ends the holds of all of them, whichever agent breaks it.
func TestBreakOfASemaphore(t *testing.T) {
	for _, kind := range []lockagent.LockKind{lockagent.Semaphore, lockagent.Permits} {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				a, b := start(t, Config{Store: store.Share()}), start(t, Config{Store: store})
				set := lockagent.PermitsRequest{Name: "seats", Kind: kind, Op: lockagent.TrySetPermits, N: 4}
				if r := await(t, "set", a.Permits(background, set)); r.Err != nil {
					t.Fatal(r.Err)
				}
				var held []lockagent.Grant
				for i, agent := range []*Agent{a, a, b, b} {
					held = append(
						held,
						granted(
							t, agent.Acquire(background, "seats", Request{Owner: lockagent.Owner(fmt.Sprint("owner", i)), Kind: kind}),
						),
					)
				}
				if r := await(t, "break", a.Break("seats", kind, "oscar")); r.Err != nil || !r.Value {
					t.Errorf("broken %t, %v", r.Value, r.Err)
				}
				synctest.Wait()
				for _, g := range held {
					lostBecause(t, g.Cause(), lockagent.LostBroken)
				}
				if r := await(t, "break", a.Break("seats", kind, "")); r.Err != nil || r.Value {
					t.Errorf("with no holder: broken %t, %v", r.Value, r.Err)
				}
			})
		})
	}
}

// The events of a semaphore tell how many permits an owner has, and how many there were when the store granted
// them: also if they were passed on.
func TestEventsOfASemaphore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, w := memstore.New(), &witness{}
		a := start(t, Config{Store: store.Share(), Recorder: w})
		b := start(t, Config{Store: store, Recorder: w})
		for _, kind := range []lockagent.LockKind{lockagent.Semaphore, lockagent.Permits} {
			w.events = nil
			change := func(op lockagent.PermitsOp, n int, id lockagent.PermitID) {
				t.Helper()
				req := lockagent.PermitsRequest{Name: lockagent.Name(kind), Kind: kind, Op: op, N: n, ID: id, Lease: time.Minute}
				if r := await(t, string(op), a.Permits(background, req)); r.Err != nil {
					t.Fatalf("%s: %v", op, r.Err)
				}
			}
			ask := func(a *Agent, owner lockagent.Owner, n int) <-chan lockagent.Grant {
				return a.Acquire(background, lockagent.Name(kind), Request{Owner: owner, Kind: kind, Permits: n})
			}
			change(lockagent.TrySetPermits, 3, "")
			change(lockagent.TrySetPermits, 4, "") // it is set
			ann := granted(t, ask(a, "ann", 2))
			bob := ask(b, "bob", 2)
			synctest.Wait()
			change(lockagent.AddPermits, -1, "")
			change(lockagent.ReadPermits, 0, "")
			released(t, ann) // passed to bob
			g := granted(t, bob)
			if kind == lockagent.Semaphore {
				change(lockagent.AddPermits, 4, "")
				change(lockagent.DrainPermits, 0, "")
			} else {
				change(lockagent.ExtendPermit, 0, g.PermitIDs()[1])
				change(lockagent.ReleasePermit, 0, g.PermitIDs()[1])
				change(lockagent.SetPermits, 1, "")
			}
			change(lockagent.AddPermits, 5, "")
			released(t, granted(t, ask(a, "carl", 1)))
			_ = await(t, "release", g.ReleaseAsync(background))
			change(lockagent.DeletePermits, 0, "")
			var got []string
			for _, e := range w.all() {
				switch {
				case e.Kind == lockagent.EventPermits:
					got = append(got, fmt.Sprintf("%s %d: %d%.4s", e.Op, e.Permits, e.Total, e.Permit))
					if e.StoreTime == 0 || e.Lock != lockagent.Name(kind) || e.LockKind != kind {
						t.Errorf("%+v", e)
					}
				case e.Kind == lockagent.EventGranted || e.Kind == lockagent.EventReleased:
					got = append(got, fmt.Sprintf("%s %v %d of %d", e.Owner, e.Kind, e.Permits, e.Total))
				}
			}
			want := []string{
				"tryset 3: 3", "ann granted 2 of 3", "add -1: 2", "ann released 2 of 3", "bob granted 2 of 2",
				"add 4: 6", "drain 4: 2", "add 5: 7", "carl granted 0 of 7", "carl released 0 of 7", "bob released 2 of 2",
				"delete 0: 0",
			}
			if kind == lockagent.Permits {
				want = slices.Replace(want, 5, 8, fmt.Sprintf("release 1: 2%.4s", g.PermitIDs()[1]), "set 1: 1", "add 5: 6")
				want[8], want[9] = "carl granted 0 of 6", "carl released 0 of 6"
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s:\ngot  %q\nwant %q", kind, got, want)
			}
		}
	})
}

// A change that the store never answers may have been made. The events say that it was tried.
func TestEventOfAChangeWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, w := newTap(memstore.New()), &witness{}
		a := start(t, Config{Store: store, Recorder: w})
		answers := 0
		store.on("permits", func(o *op) {
			if answers--; answers < 0 {
				o.lose()
			} else {
				o.fail(lockagent.ErrNotPermitted)
			}
		})
		change := func(op lockagent.PermitsOp, n int) {
			t.Helper()
			req := lockagent.PermitsRequest{Name: "s", Kind: lockagent.Semaphore, Op: op, N: n}
			if r := await(t, string(op), a.Permits(background, req)); r.Err == nil {
				t.Fatalf("%s: %+v", op, r.Value)
			}
		}
		change(lockagent.AddPermits, 3)
		change(lockagent.DeletePermits, 0)
		change(lockagent.ReadPermits, 0)
		answers = 1
		change(lockagent.AddPermits, 4) // it was not made
		var got []string
		for _, e := range w.all() {
			if e.Kind == lockagent.EventPermits {
				got = append(got, fmt.Sprintf("%s %d", e.Op, e.Permits))
				if e.StoreTime != 0 || e.Total != 0 || e.Err == "" {
					t.Errorf("%+v", e)
				}
			}
		}
		if want := []string{"add 3", "delete 0"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// The first hold of a tenure waits for a renewal if the store may have been reset meanwhile. No event tells of that
// renewal but the grant: nothing else would tell of the tenure, should nobody want it any more.
func TestNoEventOfARenewalBeforeTheFirstHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, w := newTap(memstore.New()), &witness{}
		a := start(t, Config{Store: store, Recorder: w})
		renewals := 0
		store.handle(func(o *op) {
			go func() {
				switch o.kind {
				case "acquire":
					a.storeReset(lockagent.Reset{}) // so its answer may be one of before
				case "renew":
					renewals++
				}
				time.Sleep(time.Second)
				o.run()
			}()
		})
		g := granted(t, a.Acquire(background, "door", who("ann")))
		grant := w.of(lockagent.EventGranted)[0]
		if renewals != 1 || len(w.of(lockagent.EventRenewed)) != 0 || grant.Confirmed <= grant.StoreTime {
			t.Errorf("%d renewals, events %v; the grant is %+v", renewals, w.of(lockagent.EventRenewed), grant)
		}
		released(t, g)
	})
}

package actor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/saved"
	"github.com/lockagent/lockagent/memstore"
)

// Whatever the way to a grant, the lease behind it means the same. The test tries each promise about leases after each
// way to a grant, for each kind of lock. A new way is a new row of beginnings. A new promise is a new row of promises.

// beginner is agent A with a store that it shares with agent B.
type beginner struct {
	a, b    *Agent
	memory  *memstore.Store
	tap     *tap // of A
	all     *witness
	mortal  bool              // A dies when ann is granted the lock: from then on no call of A reaches the store
	beside  []lockagent.Grant // of A, beside the one of ann
	lease   time.Duration     // of the request of ann; 0 if it is kept
	longest time.Duration     // 0, or the lease of another hold of her session
}

// guest is what ann asks for: a kind of lock, and a mode.
type guest struct {
	kind lockagent.LockKind
	mode lockagent.Mode
}

func (g guest) String() string {
	if g.mode == lockagent.Shared {
		return string(g.kind) + ", shared"
	}
	return string(g.kind)
}

// guests are all kinds and modes that somebody may hold.
func guests() (all []guest) {
	for _, kind := range lockagent.LockKinds() {
		switch kind {
		case lockagent.Latch: // nobody holds it
		case lockagent.ReadWriteLock:
			all = append(all, guest{kind, lockagent.Exclusive}, guest{kind, lockagent.Shared})
		default:
			all = append(all, guest{kind, lockagent.Exclusive})
		}
	}
	return all
}

// beginning is a way to a grant.
type beginning struct {
	name string
	// how is what the event of the grant tells. It is 0 for a re-entry. A hold that is to outlive its process may have
	// to begin in another way.
	how lockagent.How
	// not is why such a grant cannot be, or empty if it can. A nil function is the same as an empty text.
	not func(guest) string
	// refuses is the error of such a request if its lease is to outlive the process. nil means that it is granted.
	refuses error
	// begin asks for the lock for ann, and brings about that A grants it in this way.
	begin func(t *testing.T, w *beginner, req Request) <-chan lockagent.Grant
}

var beginnings = []beginning{
	{
		name: "of a free lock", how: lockagent.ByStore,
		begin: func(_ *testing.T, w *beginner, req Request) <-chan lockagent.Grant {
			return w.a.Acquire(background, "door", req)
		},
	},
	{
		name: "by a pass of the store", how: lockagent.ByStore,
		not: oneOf("the store has no queue for it", lockagent.SpinLock),
		begin: func(t *testing.T, w *beginner, req Request) <-chan lockagent.Grant {
			before := granted(t, w.b.Acquire(background, "door", before(req)))
			c := w.a.Acquire(background, "door", req)
			time.Sleep(time.Second)
			asked := w.tap.count("acquire")
			released(t, before)
			synctest.Wait()
			if w.tap.count("acquire") != asked {
				t.Error("the store was asked once more")
			}
			return c
		},
	},
	{
		name: "by a hand-off", how: lockagent.ByHandOff, not: placed,
		begin: func(t *testing.T, w *beginner, req Request) <-chan lockagent.Grant {
			return w.after(t, before(req), req)
		},
	},
	{
		name: "after a hold with a longer lease", how: lockagent.ByStore, not: placed,
		begin: func(t *testing.T, w *beginner, req Request) <-chan lockagent.Grant {
			longer := before(req)
			longer.Lease = longLease
			return w.after(t, longer, req)
		},
	},
	{
		name: "by a rest", how: lockagent.ByRest,
		not: func(g guest) string {
			if g.kind == lockagent.PlainLock || g.kind == lockagent.FencedLock {
				return ""
			}
			return "only plain and fenced locks rest"
		},
		begin: func(t *testing.T, w *beginner, req Request) <-chan lockagent.Grant {
			usually(t, w.a, before(req))
			return w.a.Acquire(background, "door", req)
		},
	},
	{
		name: "beside another reader", how: lockagent.ByHandOff,
		not: func(g guest) string {
			if g.mode == lockagent.Shared {
				return ""
			}
			return "nobody else holds it meanwhile"
		},
		begin: func(t *testing.T, w *beginner, req Request) <-chan lockagent.Grant {
			w.holds(t, Request{Owner: "bob", Kind: req.Kind, Mode: req.Mode})
			return w.a.Acquire(background, "door", req)
		},
	},
	{
		name: "by a re-entry", not: ownerless, refuses: lockagent.ErrBadOption, // it would have to wait for itself
		begin: func(t *testing.T, w *beginner, req Request) <-chan lockagent.Grant {
			return w.again(t, req, req.Lease/2)
		},
	},
	{
		name: "by a re-entry during a longer lease", not: ownerless,
		begin: func(t *testing.T, w *beginner, req Request) <-chan lockagent.Grant {
			w.longest = longLease
			return w.again(t, req, w.longest)
		},
	},
	{
		name: "in the process before", how: lockagent.ByStore,
		begin: func(t *testing.T, w *beginner, req Request) <-chan lockagent.Grant {
			granted(t, w.a.Acquire(background, "door", req))
			return w.nextProcess(t, detached(t, w.a))
		},
	},
	{
		name: "after a wait that began in the process before", how: lockagent.ByStore,
		begin: func(t *testing.T, w *beginner, req Request) <-chan lockagent.Grant {
			other := granted(t, w.b.Acquire(background, "door", before(req)))
			died, store := mortal(t, w.memory, Config{})
			died.Acquire(background, "door", req)
			time.Sleep(time.Second)
			c := w.nextProcess(t, killed(t, died, store))
			time.Sleep(time.Second)
			released(t, other)
			return c
		},
	},
}

func oneOf(why string, kinds ...lockagent.LockKind) func(guest) string {
	return func(g guest) string {
		if slices.Contains(kinds, g.kind) {
			return why
		}
		return ""
	}
}

var (
	placed = oneOf("each request has a tenure and a place of its own",
		lockagent.FairLock, lockagent.Semaphore, lockagent.Permits)
	ownerless = oneOf("a request knows of no other one", lockagent.Semaphore, lockagent.Permits)
)

// before is a request of somebody who keeps the lock from the one who makes another request.
func before(req Request) Request { return Request{Owner: "bob", Kind: req.Kind} }

// after asks for the lock while somebody else holds it, who releases it then.
func (w *beginner) after(t *testing.T, first, req Request) <-chan lockagent.Grant {
	t.Helper()
	held := granted(t, w.a.Acquire(background, "door", first))
	c := w.a.Acquire(background, "door", req)
	synctest.Wait()
	released(t, held)
	return c
}

// again asks for the lock with a session that has it with another lease.
func (w *beginner) again(t *testing.T, req Request, lease time.Duration) <-chan lockagent.Grant {
	t.Helper()
	req.Session = true
	first := req
	first.Lease, first.Outlive = lease, false
	mortal := w.mortal
	w.mortal = false
	w.holds(t, first)
	w.mortal = mortal
	return w.a.Acquire(background, "door", req)
}

func (w *beginner) holds(t *testing.T, req Request) {
	t.Helper()
	w.beside = append(w.beside, granted(t, w.a.Acquire(background, "door", req)))
}

// nextProcess has another process go on with the one request of A. It takes the place of A.
func (w *beginner) nextProcess(t *testing.T, n saved.Agent) <-chan lockagent.Grant {
	t.Helper()
	w.a = resuming(t, Config{Store: w.tap, Recorder: w.all}, n)
	all := w.a.Resumed()
	if len(all) != 1 {
		t.Fatalf("resumed %v", all)
	}
	return all[0].Grant
}

// leave ends the holds of A beside that of ann.
func (w *beginner) leave(t *testing.T) {
	t.Helper()
	for _, g := range w.beside {
		released(t, g)
	}
}

// die has no call of A reach the store any more.
func (w *beginner) die() { w.tap.handle(func(o *op) { o.fail(lockagent.ErrStoreUnavailable) }) }

// noticed hears of each event of A, before anybody hears of a grant.
func (w *beginner) noticed(e lockagent.Event) {
	if w.mortal && e.Owner == "ann" && (e.Kind == lockagent.EventGranted || e.Kind == lockagent.EventReentered) {
		w.die()
	}
}

// how is how the last grant of ann began.
func (w *beginner) how() (how lockagent.How) {
	for _, e := range w.all.all() {
		if e.Owner == "ann" && (e.Kind == lockagent.EventGranted || e.Kind == lockagent.EventReentered) {
			how = e.How
		}
	}
	return how
}

// freeAfter checks how long it takes until B is granted the lock. The hold of ann is over by then.
func (w *beginner) freeAfter(t *testing.T, g lockagent.Grant, least, most time.Duration) {
	t.Helper()
	begin := time.Now()
	eve := w.b.Lock(background, "door", Request{Owner: "eve", Kind: w.kind(g)})
	if d := time.Since(begin); eve.Err() != nil || d < least || d > most {
		t.Fatalf("another agent had the lock after %v, want %v to %v: %v", d, least, most, eve.Err())
	}
	if g.Held() {
		t.Error("another agent had the lock while ann held it")
	}
	released(t, eve)
}

func (w *beginner) kind(g lockagent.Grant) lockagent.LockKind {
	for _, e := range w.all.all() {
		if e.Owner == g.Owner() {
			return e.LockKind
		}
	}
	return ""
}

const (
	leaseOfAnn = time.Minute
	longLease  = 3 * leaseOfAnn
	extended   = 5 * leaseOfAnn
	marginOf   = 2 * time.Second // of leases of 20 s or more
	soon       = time.Second     // a waiter asks again a little after a lease is over
)

// whole is the lease that the hold of ann may have: that of her request, or of her session.
func (w *beginner) whole() time.Duration {
	if w.lease == 0 {
		return max(DefaultLease, w.longest)
	}
	return max(w.lease, w.longest)
}

// What a request says of its lease.
const (
	keptLease   = "kept"
	fixedLease  = "fixed"
	outlasting  = "fixed, to outlive the process"
	dyingAtOnce = "fixed, to outlive the process, which dies at the grant"
)

// promise is what a lease means to its holder, and to others.
type promise struct {
	name   string
	leases []string // for which it holds
	check  func(t *testing.T, w *beginner, g lockagent.Grant)
}

var promises = []promise{
	{"it lasts for as long as its process", []string{keptLease}, func(t *testing.T, w *beginner, g lockagent.Grant) {
		w.backed(t, g, leaseOfAnn)
		if !g.Held() {
			t.Errorf("it is over: %v", g.Cause())
		}
	}},
	{"it ends at its end, and not before", []string{fixedLease}, func(t *testing.T, w *beginner, g lockagent.Grant) {
		begin := time.Now()
		w.backed(t, g, w.whole())
		<-g.Done()
		lostBecause(t, g.Cause(), lockagent.LostExpired)
		if d := time.Since(begin); d != w.whole()-marginOf {
			t.Errorf("it was over %v after the grant, want %v", d, w.whole()-marginOf)
		}
	}},
	{
		"whoever holds it hears of the danger before the end",
		[]string{keptLease},
		func(t *testing.T, w *beginner, g lockagent.Grant) {
			w.die()
			select {
			case <-g.Uncertain():
			case <-g.Done():
				t.Error("the hold ended first")
			}
			if !g.Held() {
				t.Errorf("it is over: %v", g.Cause())
			}
			<-g.Done()
			lostBecause(t, g.Cause(), lockagent.LostDeadline)
		},
	},
	{"it is not extended by hand", []string{keptLease}, func(t *testing.T, _ *beginner, g lockagent.Grant) {
		if err := g.Extend(background, extended); !errors.Is(err, lockagent.ErrBadOption) {
			t.Errorf("extended: %v", err)
		}
	}},
	{
		"an extension counts when the store has confirmed it",
		[]string{fixedLease, outlasting},
		func(t *testing.T, w *beginner, g lockagent.Grant) {
			time.Sleep(leaseOfAnn / 2)
			if err := g.Extend(background, extended); err != nil {
				t.Fatal(err)
			}
			w.backed(t, g, 0)
			if err := g.Extend(background, leaseOfAnn); err != nil || g.Remaining() != extended-marginOf {
				t.Errorf("after a shorter extension %v are left: %v", g.Remaining(), err)
			}
			w.die()
			w.freeAfter(t, g, extended-marginOf, extended+soon)
			lostBecause(t, g.Cause(), lockagent.LostExpired)
		},
	},
	{
		"an extension that the store does not confirm is none",
		[]string{fixedLease, outlasting},
		func(t *testing.T, w *beginner, g lockagent.Grant) {
			time.Sleep(leaseOfAnn / 2) // by then the store has the whole lease
			w.die()
			begin := time.Now()
			lostBecause(t, g.Extend(background, extended), lockagent.LostDeadline)
			if d := time.Since(begin); d > w.whole()-leaseOfAnn/2 {
				t.Errorf("the answer took %v", d)
			}
			w.freeAfter(t, g, 0, marginOf+soon)
		},
	},
	{
		"whoever dies keeps others out for no longer",
		[]string{keptLease, fixedLease},
		func(t *testing.T, w *beginner, g lockagent.Grant) {
			w.die()
			w.freeAfter(t, g, 0, w.whole()+soon)
			lost, _ := errors.AsType[*lockagent.LostError](g.Cause())
			if lost == nil || lost.Reason != lockagent.LostDeadline && lost.Reason != lockagent.LostExpired {
				t.Errorf("it ended because of %v", g.Cause())
			}
		},
	},
	{
		"a release gives it back",
		[]string{keptLease, fixedLease, outlasting},
		func(t *testing.T, w *beginner, g lockagent.Grant) {
			w.leave(t)
			released(t, g)
			w.freeAfter(t, g, 0, 0)
		},
	},
	{"Close ends it", []string{keptLease, fixedLease}, func(t *testing.T, w *beginner, g lockagent.Grant) {
		closed(t, w.a)
		lostBecause(t, g.Cause(), lockagent.LostClosed)
		w.freeAfter(t, g, 0, 0)
	}},
	{"Shutdown waits for its end", []string{keptLease, fixedLease}, func(t *testing.T, w *beginner, g lockagent.Grant) {
		done := shuttingDown(background, w.a)
		time.Sleep(leaseOfAnn / 2)
		silent(t, "Shutdown", done)
		w.leave(t)
		released(t, g)
		if err := await(t, "Shutdown", done); err != nil {
			t.Error(err)
		}
		w.freeAfter(t, g, 0, 0)
	}},
	{
		"Shutdown waits until its context ends",
		[]string{keptLease, fixedLease},
		func(t *testing.T, w *beginner, g lockagent.Grant) {
			ctx, cancel := context.WithTimeout(background, leaseOfAnn/2)
			defer cancel()
			begin := time.Now()
			if err := w.a.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != leaseOfAnn/2 {
				t.Errorf("Shutdown took %v: %v", time.Since(begin), err)
			}
			lostBecause(t, g.Cause(), lockagent.LostClosed)
			w.freeAfter(t, g, 0, 0)
		},
	},
	{
		"the store has the whole lease before anybody hears of the grant",
		[]string{dyingAtOnce},
		func(t *testing.T, w *beginner, g lockagent.Grant) {
			w.freeAfter(t, g, leaseOfAnn-marginOf, w.whole()+soon)
			lostBecause(t, g.Cause(), lockagent.LostExpired)
		},
	},
	{"Close leaves it", []string{outlasting, dyingAtOnce}, func(t *testing.T, w *beginner, g lockagent.Grant) {
		closed(t, w.a)
		lostBecause(t, g.Cause(), lockagent.LostClosed)
		w.freeAfter(t, g, leaseOfAnn-marginOf, w.whole()+soon)
	}},
	{"Shutdown leaves it", []string{outlasting, dyingAtOnce}, func(t *testing.T, w *beginner, g lockagent.Grant) {
		w.leave(t) // Shutdown waits for the others
		begin := time.Now()
		if err := w.a.Shutdown(background); err != nil || time.Since(begin) > 0 {
			t.Errorf("Shutdown took %v: %v", time.Since(begin), err)
		}
		lostBecause(t, g.Cause(), lockagent.LostClosed)
		w.freeAfter(t, g, leaseOfAnn-marginOf, w.whole()+soon)
	}},
	{
		"Close leaves an extension that the store has confirmed",
		[]string{outlasting},
		func(t *testing.T, w *beginner, g lockagent.Grant) {
			if err := g.Extend(background, extended); err != nil {
				t.Fatal(err)
			}
			closed(t, w.a)
			w.freeAfter(t, g, extended-marginOf, extended+soon)
		},
	},
	{
		"Close tells of an extension that the store has not confirmed",
		[]string{dyingAtOnce},
		func(t *testing.T, w *beginner, g lockagent.Grant) {
			done := g.ExtendAsync(background, extended)
			synctest.Wait()
			silent(t, "extension", done)
			if err := closing(t, w.a); !errors.Is(err, lockagent.ErrUnconfirmed) {
				t.Errorf("Close: %v", err)
			}
			lostBecause(t, await(t, "extension", done), lockagent.LostClosed)
			w.freeAfter(t, g, leaseOfAnn-marginOf, w.whole()+soon)
		},
	},
}

// backed looks now and then, for a while, whether the store has a lease for as long as ann may trust in her hold.
func (w *beginner) backed(t *testing.T, g lockagent.Grant, during time.Duration) {
	t.Helper()
	kind := w.kind(g)
	for begin := time.Now(); ; time.Sleep(min(300*time.Millisecond, g.Remaining())) {
		if left, inStore := g.Remaining(), inspectAs(t, w.tap.whole, "door", kind).Remaining; left > inStore {
			t.Fatalf("after %v ann trusts in the lock for %v, and the store's lease for %v", time.Since(begin), left, inStore)
		}
		if time.Since(begin) >= during || !g.Held() {
			return
		}
	}
}

func TestEachBeginningKeepsEachPromise(t *testing.T) {
	ways := make(map[lockagent.How]bool)
	for _, row := range beginnings {
		ways[row.how] = true
	}
	for how := lockagent.ByStore; how.String() != ""; how++ {
		if !ways[how] {
			t.Errorf("no row begins by %q: add one, so that each promise is tried", how)
		}
	}
	for _, of := range guests() {
		t.Run(of.String(), func(t *testing.T) {
			for _, row := range beginnings {
				if row.not != nil && row.not(of) != "" {
					continue
				}
				for _, p := range promises {
					for _, lease := range p.leases {
						t.Run(fmt.Sprint(row.name, "/", p.name, "/", lease), func(t *testing.T) {
							synctest.Test(t, func(t *testing.T) { keepsPromise(t, of, row, lease, p.check) })
						})
					}
				}
			}
		})
	}
}

func keepsPromise(
	t *testing.T, of guest, row beginning, lease string, check func(t *testing.T, w *beginner, g lockagent.Grant),
) {
	memory := memstore.New()
	w := &beginner{memory: memory, tap: newTap(memory), all: &witness{}, b: start(t, Config{Store: memory.Share()})}
	w.all.before = w.noticed
	w.a = startResting(t, Config{Store: w.tap, Recorder: w.all, Journal: newChronicle()})
	if of.kind == lockagent.Semaphore || of.kind == lockagent.Permits {
		set := lockagent.PermitsRequest{Name: "door", Kind: of.kind, Op: lockagent.TrySetPermits, N: 1}
		if r := await(t, "permits", w.b.Permits(background, set)); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	time.Sleep(time.Second) // an agent that has just begun has no habits
	req := Request{Owner: "ann", Kind: of.kind, Mode: of.mode, Outlive: lease == outlasting || lease == dyingAtOnce}
	if lease != keptLease {
		req.Lease, w.lease = leaseOfAnn, leaseOfAnn
	}
	w.mortal = lease == dyingAtOnce
	c := row.begin(t, w, req)
	if req.Outlive && row.refuses != nil {
		refused(t, c, row.refuses)
		return
	}
	g := granted(t, c)
	if how := w.how(); !req.Outlive && how != row.how {
		t.Fatalf("it was granted by %q, want %q", how, row.how)
	}
	check(t, w, g)
	w.tap.handle(nil)
}

package actor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// storeNow is what the clock of a memstore that was made at begin shows.
func storeNow(begin time.Time) lockagent.StoreTime {
	return lockagent.StoreTime(begin.UnixMicro()).Add(time.Since(begin))
}

// The lives of a lock, as they are recorded.
func TestStories(t *testing.T) {
	try := Request{Owner: "bob", Try: true}
	type world struct {
		t     *testing.T
		a, b  *Agent
		s     *tap
		store *memstore.Store
	}
	for _, c := range []struct {
		name string
		cfg  Config
		live func(w world)
		want string
	}{
		{"acquired and released", Config{}, func(w world) {
			released(w.t, granted(w.t, w.a.Acquire(background, "door", who("ann"))))
		}, "granted released returned"},

		{"released twice", Config{}, func(w world) {
			g := granted(w.t, w.a.Acquire(background, "door", who("ann")))
			released(w.t, g)
			_ = await(w.t, "release", g.ReleaseAsync(background))
		}, "granted released returned"},

		{"handed off", Config{HandOffTime: time.Hour}, func(w world) {
			g := granted(w.t, w.a.Acquire(background, "door", who("ann")))
			c := w.a.Acquire(background, "door", who("bob"))
			released(w.t, g)
			released(w.t, granted(w.t, c))
		}, "granted queued released granted released returned"},

		{"re-entered", Config{}, func(w world) {
			g := granted(w.t, w.a.Acquire(background, "door", again("ann")))
			h := granted(w.t, w.a.Acquire(background, "door", again("ann")))
			released(w.t, g)
			released(w.t, h)
		}, "granted reentered released released returned"},

		{"renewed", Config{}, func(w world) {
			g := granted(w.t, w.a.Acquire(background, "door", who("ann")))
			time.Sleep(25 * time.Second)
			released(w.t, g)
		}, "granted renewed renewed released returned"},

		{"uncertain", Config{}, func(w world) {
			g := granted(w.t, w.a.Acquire(background, "door", who("ann")))
			w.s.on("renew", func(o *op) { o.fail(lockagent.ErrStoreUnavailable) })
			time.Sleep(15 * time.Second)
			w.s.handle(nil)
			time.Sleep(time.Second)
			released(w.t, g)
		}, "granted uncertain renewed released returned"},

		{"lost at the deadline", Config{}, func(w world) {
			g := granted(w.t, w.a.Acquire(background, "door", who("ann")))
			w.s.handle(func(o *op) { o.fail(lockagent.ErrStoreUnavailable) })
			<-g.Done()
			time.Sleep(time.Minute)
			w.s.handle(nil)
		}, "granted uncertain lost"},

		{"lost at the deadline, and returned", Config{}, func(w world) {
			g := granted(w.t, w.a.Acquire(background, "door", who("ann")))
			w.s.on("renew", func(o *op) { o.fail(lockagent.ErrStoreUnavailable) })
			<-g.Done()
		}, "granted uncertain lost returned"},

		{"denied", Config{}, func(w world) {
			g := granted(w.t, w.a.Acquire(background, "door", again("ann")))
			granted(w.t, w.a.Acquire(background, "door", again("ann")))
			w.s.news = func(func(lockagent.Message), lockagent.Message) {} // nobody hears of the break
			w.store.Break(background, lockagent.BreakRequest{Name: "door"}, func(lockagent.BreakReply, error) {})
			<-g.Done()
		}, "granted reentered lost lost returned"},

		{"expired", Config{}, func(w world) {
			g := granted(w.t, w.a.Acquire(background, "door", Request{Owner: "ann", Lease: time.Second}))
			<-g.Done()
		}, "granted expired returned"},

		{"a lease of a session expires", Config{}, func(w world) {
			g := granted(w.t, w.a.Acquire(background, "door", again("ann")))
			h := granted(w.t, w.a.Acquire(background, "door", Request{Owner: "ann", Session: true, Lease: time.Second}))
			released(w.t, g)
			<-h.Done()
		}, "granted reentered released expired returned"},

		{"broken", Config{}, func(w world) {
			granted(w.t, w.a.Acquire(background, "door", again("ann")))
			granted(w.t, w.a.Acquire(background, "door", again("ann")))
			await(w.t, "break", w.a.Break("door", lockagent.PlainLock, ""))
		}, "granted reentered broken broken returned"},

		{"broken by another agent", Config{}, func(w world) {
			g := granted(w.t, w.a.Acquire(background, "door", again("ann")))
			granted(w.t, w.a.Acquire(background, "door", again("ann")))
			await(w.t, "break", w.b.Break("door", lockagent.PlainLock, ""))
			<-g.Done()
		}, "granted reentered broken broken returned"},

		{"left", Config{}, func(w world) {
			granted(w.t, w.a.Acquire(background, "door", again("ann")))
			c := w.a.Acquire(background, "door", again("bob"))
			synctest.Wait()
			_ = await(w.t, "leave", w.a.Leave(background, "door", "bob"))
			refused(w.t, c, lockagent.ErrSessionClosed)
			_ = await(w.t, "leave", w.a.Leave(background, "door", "ann"))
		}, "granted queued refused lost returned"},

		{"closed", Config{}, func(w world) {
			granted(w.t, w.a.Acquire(background, "door", who("ann")))
			w.a.Acquire(background, "door", who("bob"))
			synctest.Wait()
			_ = w.a.Close()
		}, "granted queued refused lost returned"},

		{"unclaimed", Config{Claim: time.Second}, func(w world) {
			w.a.Acquire(background, "door", who("ann"))
			time.Sleep(time.Second)
			synctest.Wait()
		}, "granted unclaimed returned"},

		{"tried", Config{}, func(w world) {
			g := granted(w.t, w.a.Acquire(background, "door", who("ann")))
			refused(w.t, w.a.Acquire(background, "door", try), lockagent.ErrHeld)
			released(w.t, g)
		}, "granted refused released returned"},

		{"tried, but held elsewhere", Config{}, func(w world) {
			g := granted(w.t, w.b.Acquire(background, "door", who("zoe")))
			refused(w.t, w.a.Acquire(background, "door", try), lockagent.ErrHeld)
			released(w.t, g)
		}, "refused"},

		{"timed out", Config{}, func(w world) {
			g := granted(w.t, w.a.Acquire(background, "door", who("ann")))
			refused(
				w.t, w.a.Acquire(background, "door", Request{Owner: "bob", Wait: time.Second}), lockagent.ErrTimeout,
			)
			ctx, cancel := context.WithTimeout(background, time.Second)
			defer cancel()
			refused(w.t, w.a.Acquire(ctx, "door", who("carl")), context.DeadlineExceeded)
			released(w.t, g)
		}, "granted queued timedout queued timedout released returned"},

		{"cancelled", Config{}, func(w world) {
			g := granted(w.t, w.b.Acquire(background, "door", who("zoe")))
			ctx, cancel := context.WithCancel(background)
			c := w.a.Acquire(ctx, "door", who("ann"))
			synctest.Wait()
			cancel()
			refused(w.t, c, context.Canceled)
			released(w.t, g)
		}, "queued cancelled"},

		{"waits for another agent", Config{}, func(w world) {
			g := granted(w.t, w.b.Acquire(background, "door", who("zoe")))
			c := w.a.Acquire(background, "door", who("ann"))
			synctest.Wait()
			released(w.t, g)
			released(w.t, granted(w.t, c))
		}, "queued granted released returned"},

		{"waits for the store", Config{}, func(w world) {
			w.s.on("acquire", func(o *op) { o.fail(lockagent.ErrStoreUnavailable) })
			c := w.a.Acquire(background, "door", who("ann"))
			time.Sleep(5 * time.Second) // for many attempts
			d := w.a.Acquire(background, "door", who("bob"))
			synctest.Wait()
			w.s.handle(nil)
			released(w.t, granted(w.t, c))
			released(w.t, granted(w.t, d))
		}, "requested queued granted released granted released returned"},

		{"does not wait for the store", Config{}, func(w world) {
			w.s.on("acquire", func(o *op) { o.fail(lockagent.ErrStoreUnavailable) })
			refused(
				w.t, w.a.Acquire(background, "door", Request{Owner: "ann", Try: true}), lockagent.ErrStoreUnavailable,
			)
			w.s.handle(nil)
		}, "refused"},

		{"the store refuses", Config{}, func(w world) {
			w.store.PlantValue("door")
			refused(w.t, w.a.Acquire(background, "door", who("ann")), lockagent.ErrWrongType)
			w.store.Reset()
		}, "refused storereset"},

		{"refused at the door", Config{}, func(w world) {
			refused(w.t, w.a.Acquire(background, "", who("ann")), lockagent.ErrBadName)
			ctx, cancel := context.WithCancel(background)
			cancel()
			refused(w.t, w.a.Acquire(ctx, "door", who("ann")), context.Canceled)
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				begin := time.Now()
				s := newTap(store.Share())
				w := &witness{}
				w.before = func(e lockagent.Event) { checkFields(t, e, begin) }
				cfg := c.cfg
				cfg.Store, cfg.Recorder = s, w
				a := start(t, cfg)
				c.live(world{t: t, a: a, b: start(t, Config{Store: store}), s: s, store: store})
				synctest.Wait()
				closed(t, a)
				w.tells(t, "agentstarted "+c.want+" agentstopped")
				w.checkHolds(t)
				for _, e := range w.all() {
					if e.Agent != a.ID() {
						t.Errorf("%v of agent %q", e.Kind, e.Agent)
					}
				}
			})
		})
	}
}

// checkFields checks what the catalogue says about the fields of an event, at the
// moment it is recorded.
func checkFields(t *testing.T, e lockagent.Event, begin time.Time) {
	t.Helper()
	bad := func(what string) { t.Helper(); t.Errorf("%v: %s: %+v", e.Kind, what, e) }
	if e.Store == "" {
		bad("store")
	}
	if !e.Time.Equal(time.Now()) {
		bad("time")
	}
	agent := e.Kind == lockagent.EventAgentStarted || e.Kind == lockagent.EventAgentStopped ||
		e.Kind == lockagent.EventStoreReset
	if agent != (e.Lock == "") {
		bad("lock")
	}
	ofRequest := e.Kind == lockagent.EventRequested || e.Kind == lockagent.EventQueued ||
		e.Kind == lockagent.EventGranted ||
		e.Kind == lockagent.EventReentered || e.Kind.EndsHold() || e.Kind == lockagent.EventTimedOut ||
		e.Kind == lockagent.EventCancelled || e.Kind == lockagent.EventRefused
	if ofRequest != (e.Request != 0) {
		bad("request")
	}
	if (ofRequest || e.Kind == lockagent.EventUncertain) != (e.Owner != "") {
		bad("owner")
	}
	granted := e.Kind == lockagent.EventGranted || e.Kind == lockagent.EventReentered
	if (granted || e.Kind.EndsHold() || e.Kind == lockagent.EventUncertain) != (e.Token != 0) {
		bad("token")
	}
	tenure := granted || e.Kind.EndsHold() || e.Kind == lockagent.EventUncertain || e.Kind == lockagent.EventRenewed ||
		e.Kind == lockagent.EventReturned
	if tenure != (e.Tenure != 0) {
		bad("tenure")
	}
	if granted && (e.Count == 0 || e.Incarnation == "" || e.Lease == 0) {
		bad("grant")
	}
	if (e.Kind == lockagent.EventGranted) != (e.How != 0) {
		bad("how")
	}
	if (e.Kind == lockagent.EventQueued) != (e.Waiters != 0) {
		bad("waiters")
	}
	if (granted || e.Kind == lockagent.EventRenewed) != (e.StoreTime != 0) {
		bad("store time")
	}
	if e.Kind.EndsHold() != (e.Confirmed != 0) {
		bad("confirmed")
	}
	if (e.Kind == lockagent.EventReturned) != (e.Returned != 0) {
		bad("returned")
	}
	// No two tenures begin at the same time, also if that stands still.
	if max(e.StoreTime, e.Confirmed, e.Returned) > storeNow(begin).Add(time.Millisecond) {
		bad("store time to come")
	}
	if (granted || e.Kind.EndsHold()) && e.Lease == 0 || e.Fixed && !granted && !e.Kind.EndsHold() {
		bad("lease")
	}
	if agent != (e.LockKind != lockagent.PlainLock) || agent != (e.Mode != lockagent.Exclusive) {
		bad("kind of lock")
	}
	if e.Holder != "" && e.Kind != lockagent.EventQueued {
		bad("holder")
	}
	if (e.Kind == lockagent.EventAgentStarted) != (e.Process != lockagent.Process{}) {
		bad("process")
	}
	if (e.Request == 0) != e.Who.IsZero() {
		bad("who")
	}
	if e.Kind.EndsHold() != (e.Until != 0) || e.Until != 0 &&
		(e.Until < storeNow(begin) || e.Until > storeNow(begin).Add(time.Millisecond)) {
		bad("until")
	}
	failed := e.Kind == lockagent.EventRequested || e.Kind == lockagent.EventRefused ||
		e.Kind == lockagent.EventCancelled || e.Kind == lockagent.EventTimedOut || e.Kind == lockagent.EventUncertain
	if failed != (e.Err != "") {
		bad("err")
	}
	if (e.Kind == lockagent.EventUncertain || e.Kind == lockagent.EventRenewed) != (e.Remaining != 0) {
		bad("remaining")
	}
	reason := e.Kind.EndsHold() && e.Kind != lockagent.EventReleased
	if e.Kind != lockagent.EventReturned && reason != (e.Reason != 0) {
		bad("reason")
	}
}

// The figures of one story in full.
func TestEventFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		store := memstore.New()
		w := &witness{}
		a := start(t, Config{Store: store, Recorder: w, HandOffTime: time.Hour, ID: "me"})
		a.fresh.Store(0) // small numbers are easier to read
		time.Sleep(time.Second)
		g := granted(t, a.Acquire(background, "door", Request{Owner: "ann", Session: true, Lease: 4 * time.Second}))
		time.Sleep(time.Second)
		g2 := granted(t, a.Acquire(background, "door", Request{Owner: "ann", Session: true, Lease: 2 * time.Second}))
		bob := a.Acquire(background, "door", Request{Owner: "bob", Lease: 4 * time.Second})
		synctest.Wait()
		carl := a.Acquire(background, "door", Request{Owner: "carl", Wait: time.Second})
		refused(t, carl, lockagent.ErrTimeout)
		released(t, g2)
		time.Sleep(time.Second)
		released(t, g)
		h := granted(t, bob)
		<-h.Done()
		synctest.Wait()

		us := func(d time.Duration) lockagent.StoreTime { return lockagent.StoreTime(begin.UnixMicro()).Add(d) }
		at := begin
		incarnation := w.of(lockagent.EventGranted)[0].Incarnation
		want := []lockagent.Event{
			{Kind: lockagent.EventAgentStarted, Time: at, Process: thisProcess()},
			{
				Kind: lockagent.EventGranted, Time: at.Add(time.Second), Lock: "door", Request: 1, Owner: "ann",
				Token: g.Token(), Tenure: 1, How: lockagent.ByStore, Count: 1, Lease: 4 * time.Second, Fixed: true,
				StoreTime: us(time.Second), Incarnation: incarnation,
			},
			{
				Kind: lockagent.EventReentered, Time: at.Add(2 * time.Second), Lock: "door", Request: 3, Owner: "ann",
				Token: g.Token(), Tenure: 1, Count: 2, Lease: 4 * time.Second, Fixed: true,
				StoreTime: us(time.Second), Incarnation: incarnation,
			},
			{
				Kind: lockagent.EventQueued, Time: at.Add(2 * time.Second), Lock: "door", Request: 4, Owner: "bob",
				Lease: 4 * time.Second, Waiters: 1, Holder: "ann",
			},
			{
				Kind: lockagent.EventQueued, Time: at.Add(2 * time.Second), Lock: "door", Request: 5, Owner: "carl",
				Waiters: 2, Holder: "ann",
			},
			{
				Kind: lockagent.EventTimedOut, Time: at.Add(3 * time.Second), Lock: "door", Request: 5, Owner: "carl",
				Waited: time.Second, Err: lockagent.ErrTimeout.Error(),
			},
			{
				Kind: lockagent.EventReleased, Time: at.Add(3 * time.Second), Lock: "door", Request: 3, Owner: "ann",
				Lease: 4 * time.Second, Fixed: true,
				Token: g.Token(), Tenure: 1, Held: time.Second, Count: 1, Until: us(3*time.Second) + 1,
				Confirmed: us(time.Second),
			},
			{
				Kind: lockagent.EventRenewed, Time: at.Add(3 * time.Second), Lock: "door", Tenure: 1,
				Lease:     4 * time.Second,
				StoreTime: us(3 * time.Second), Remaining: 3600 * time.Millisecond,
			},
			{
				Kind: lockagent.EventReleased, Time: at.Add(4 * time.Second), Lock: "door", Request: 1, Owner: "ann",
				Lease: 4 * time.Second, Fixed: true,
				Token: g.Token(), Tenure: 1, Held: 3 * time.Second, Until: us(4*time.Second) + 1,
				Confirmed: us(3 * time.Second),
			},
			{
				Kind: lockagent.EventGranted, Time: at.Add(4 * time.Second), Lock: "door", Request: 4, Owner: "bob",
				Token: g.Token() + 1, Tenure: 1, How: lockagent.ByHandOff, Count: 1, Lease: 4 * time.Second,
				Fixed:     true,
				StoreTime: us(3 * time.Second), Incarnation: incarnation, Waited: 2 * time.Second,
			},
			{
				Kind: lockagent.EventRenewed, Time: at.Add(4 * time.Second), Lock: "door", Tenure: 1,
				Lease:     4 * time.Second,
				StoreTime: us(4 * time.Second), Remaining: 3600 * time.Millisecond,
			},
			{
				Kind: lockagent.EventExpired, Time: at.Add(7600 * time.Millisecond), Lock: "door", Request: 4,
				Owner: "bob", Lease: 4 * time.Second, Fixed: true,
				Token: g.Token() + 1, Tenure: 1, Held: 3600 * time.Millisecond, Until: us(7600*time.Millisecond) + 1,
				Reason:    lockagent.LostExpired,
				Confirmed: us(4 * time.Second),
			},
			{
				Kind: lockagent.EventReturned, Time: at.Add(7600 * time.Millisecond), Lock: "door", Tenure: 1,
				Returned: us(7600 * time.Millisecond),
			},
		}
		got := w.all()
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) {
				t.Errorf("%d events, want %d", len(got), len(want))
				break
			}
			e, f := got[i], want[i]
			f.Agent, f.Store = "me", store.Identity()
			if f.Request != 0 {
				f.Who = a.who
			}
			if f.Lock != "" {
				f.LockKind, f.Mode = lockagent.PlainLock, lockagent.Exclusive
			}
			if !e.Time.Equal(f.Time) {
				t.Errorf("event %d: at %v, want %v", i, e.Time.Sub(begin), f.Time.Sub(begin))
			}
			e.Time = f.Time
			if e != f {
				t.Errorf("event %d:\n got %+v\nwant %+v", i, e, f)
			}
		}
	})
}

// Values of the request's context reach the recorder and the store.
func TestContextValuesTravel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		var seen []lockagent.EventKind
		r := recorderFunc(func(ctx context.Context, e lockagent.Event) {
			if ctx.Value(key{}) == "mine" {
				seen = append(seen, e.Kind)
			}
			if ctx.Done() != nil {
				t.Errorf("%v: the context can end", e.Kind)
			}
		})
		asked := 0
		s := acquireFunc{memstore.New(), func(ctx context.Context) {
			asked++
			if ctx.Value(key{}) != "mine" || ctx.Done() != nil {
				t.Error("the store is asked with another context")
			}
		}}
		a := start(t, Config{Store: s, Recorder: r})
		ctx, cancel := context.WithCancel(context.WithValue(background, key{}, "mine"))
		defer cancel()
		g := granted(t, a.Acquire(ctx, "door", who("ann")))
		refused(t, a.Acquire(ctx, "door", Request{Owner: "bob", Try: true}), lockagent.ErrHeld)
		released(t, g)
		want := []lockagent.EventKind{
			lockagent.EventGranted, lockagent.EventRefused, lockagent.EventReleased,
		}
		if len(seen) != len(want) || asked != 1 {
			t.Fatalf("seen %v, want %v; asked %d times", seen, want, asked)
		}
		for i := range want {
			if seen[i] != want[i] {
				t.Errorf("seen %v, want %v", seen, want)
			}
		}
	})
}

type recorderFunc func(context.Context, lockagent.Event)

func (f recorderFunc) Record(ctx context.Context, e lockagent.Event) { f(ctx, e) }

// acquireFunc looks at the contexts of attempts.
type acquireFunc struct {
	whole
	look func(context.Context)
}

func (s acquireFunc) Acquire(
	ctx context.Context, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error),
) {
	s.look(ctx)
	s.whole.Acquire(ctx, req, done)
}

// A reset that the store tells of while the agent is being closed, or after.
func TestAgentStoppedIsLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTap(memstore.New())
		w := &witness{}
		a := start(t, Config{Store: s, Recorder: w})
		closed(t, a)
		for _, f := range s.resets {
			f(lockagent.Reset{From: "1", To: "2", Reason: "emptied"})
		}
		w.tells(t, "agentstarted agentstopped")
	})
}

func TestUncertainTellsTheStoresErrorAndTheFirstHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTap(memstore.New())
		w := &witness{}
		a := start(t, Config{Store: s, Recorder: w})
		read := Request{Owner: "ann", Kind: lockagent.ReadWriteLock, Mode: lockagent.Shared}
		first := granted(t, a.Acquire(background, "book", read))
		read.Owner = "bob"
		granted(t, a.Acquire(background, "book", read))
		s.on("renew", func(o *op) { o.fail(errors.Join(lockagent.ErrStoreUnavailable, errors.New("no route"))) })
		time.Sleep(12 * time.Second)
		u := w.of(lockagent.EventUncertain)
		if len(u) != 1 || u[0].Err != "lockagent: store unavailable\nno route" {
			t.Fatalf("%+v", u)
		}
		if u[0].Owner != "ann" || u[0].Token != first.Token() {
			t.Errorf("it names %s with %d, want ann, who came first, with %d", u[0].Owner, u[0].Token, first.Token())
		}
	})
}

// TestUntil has a function that learns of the end of a hold take 5 s. The hold is over only then.
func TestUntil(t *testing.T) {
	for name, test := range map[string]struct {
		lease   time.Duration
		release bool
		over    bool          // the watcher learns of it
		context bool          // a context of the grant does
		want    time.Duration // since the grant
	}{
		"Released":        {release: true, want: time.Second},
		"ReleasedOver":    {release: true, over: true, want: 6 * time.Second},
		"ReleasedContext": {release: true, context: true, want: 6 * time.Second},
		"Expired":         {lease: time.Second, want: 900 * time.Millisecond},
		"ExpiredOver":     {lease: time.Second, over: true, want: 5900 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &witness{}
				a := start(t, Config{Store: memstore.New(), Recorder: w})
				req := Request{Owner: "ann", Lease: test.lease}
				if test.over {
					req.Watch = whenOver(func() { time.Sleep(5 * time.Second) })
				}
				var l *lock
				make := a.registry.make
				a.registry.make = func(e *entry) *lock {
					l = make(e)
					return l
				}
				g := granted(t, a.Acquire(background, "door", req))
				began := lockagent.StoreTime(time.Now().UnixMicro())
				synctest.Wait()
				if test.context {
					for r := range l.holds {
						r.EndWith(background, func(error) { time.Sleep(5 * time.Second) })
					}
				}
				time.Sleep(time.Second)
				if test.release {
					released(t, g)
				}
				time.Sleep(10 * time.Second)
				for _, e := range w.all() {
					if e.Kind.EndsHold() && e.Until.Sub(began).Round(time.Millisecond) != test.want {
						t.Errorf("%v: until %v, want %v", e.Kind, e.Until.Sub(began), test.want)
					}
				}
			})
		})
	}
}

package actor

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// onlooker is a Watcher that writes down what it is told. Only the actor writes, and the test reads when that is at
// rest.
type onlooker struct {
	NopWatcher
	told []string
}

// whenOver is a Watcher that calls a function when the request was denied or its hold is over.
func whenOver(f func()) Watcher { return lastWord{f: f} }

type lastWord struct {
	NopWatcher
	f func()
}

func (w lastWord) Ended(error) { w.f() }

func (d *onlooker) Queued(holder string) { d.note("queued behind %s", holder) }
func (d *onlooker) Granted(int)          { d.note("granted") }
func (d *onlooker) Renewed()             { d.note("renewed") }
func (d *onlooker) Uncertain(err error)  { d.note("uncertain: %v", err) }
func (d *onlooker) Ended(cause error)    { d.note("ended: %v", cause) }

func (d *onlooker) Warned(wanted, uncertain bool) {
	d.note("wanted: %t, uncertain: %t", wanted, uncertain)
}

func (d *onlooker) note(format string, args ...any) {
	d.told = append(d.told, fmt.Sprintf(format, args...))
}

// reads checks what was told since the last call.
func (d *onlooker) reads(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	if !slices.Equal(d.told, want) {
		t.Errorf("the watcher was told %q, want %q", d.told, want)
	}
	d.told = nil
}

func TestWatcherIsToldEveryStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTap(memstore.New())
		a := start(t, Config{Store: s})
		ann, bob := &onlooker{}, &onlooker{}
		g := granted(t, a.Acquire(background, "door", Request{Owner: "ann", Watch: ann}))
		ann.reads(t, "granted")
		waits := a.Acquire(background, "door", Request{Owner: "bob", Watch: bob})
		bob.reads(t, "queued behind ann")

		time.Sleep(DefaultLease / 3)
		ann.reads(t, "renewed")
		s.handle(func(o *op) { o.fail(lockagent.ErrStoreUnavailable) })
		time.Sleep(DefaultLease / 2)
		ann.reads(t, "uncertain: "+lockagent.ErrStoreUnavailable.Error())
		s.handle(nil)
		time.Sleep(time.Second)
		ann.reads(t, "renewed")

		released(t, g)
		ann.reads(t, "ended: "+lockagent.ErrReleased.Error())
		g = granted(t, waits)
		bob.reads(t, "granted")
		if r := <-a.Break("door", "", "root"); r.Err != nil {
			t.Fatal(r.Err)
		}
		bob.reads(t, "ended: "+g.Cause().Error())
	})
}

func TestWatcherIsToldOfARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{})
		granted(t, a.Acquire(background, "door", who("ann")))
		for name, req := range map[lockagent.Name]Request{"door": {Try: true}, "a}b": {}} {
			d := &onlooker{}
			req.Owner, req.Watch = "bob", d
			err := (<-a.Acquire(background, name, req)).Err()
			d.reads(t, "ended: "+err.Error())
		}
	})
}

// A waiter of another agent learns who has the lock from the store, and a fixed lease that is extended is renewed.
func TestWatcherOfALockElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		a, b := start(t, Config{Store: store}), start(t, Config{Store: store})
		ann, bob := &onlooker{}, &onlooker{}
		g := granted(t, a.Acquire(background, "door", Request{Owner: "ann", Lease: time.Minute, Watch: ann}))
		b.Acquire(background, "door", Request{Owner: "bob", Watch: bob})
		bob.reads(t, "queued behind "+inspect(t, store, "door").Holder)
		if err := g.Extend(background, time.Hour); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !slices.Contains(ann.told, "renewed") {
			t.Errorf("the watcher of the extended lease was told %q", ann.told)
		}
		closed(t, a)
		if last := ann.told[len(ann.told)-1]; last != "ended: "+g.Cause().Error() ||
			!errors.Is(g.Cause(), lockagent.ErrLost) {
			t.Errorf("the last that the watcher was told is %q, the cause is %v", last, g.Cause())
		}
	})
}

// The store first confirms the lease of the tenure. Only then does the fixed lease end later, and that is told as well.
func TestWatcherOfAnExtension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := start(t, Config{})
		ann := &onlooker{}
		g := granted(t, a.Acquire(background, "door", Request{Owner: "ann", Lease: time.Minute, Watch: ann}))
		ann.reads(t, "granted")
		if err := g.Extend(background, time.Hour); err != nil {
			t.Fatal(err)
		}
		ann.reads(t, "renewed", "renewed")
	})
}

package storetest

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
	"pgregory.net/rapid"
)

func TestCompareAgrees(t *testing.T) {
	sound := func(*spoilt) {}
	for _, kind := range soundKinds {
		t.Run(string(kind), func(t *testing.T) {
			if kind == lockagent.Latch {
				CompareLatches(t, memstore.New(), memstore.New())
				return
			}
			if kind == lockagent.Semaphore || kind == lockagent.Permits {
				ComparePermits(t, kind, twoStores(sound), twoStores(sound))
				return
			}
			Compare(t, kind, twoStores(sound), twoStores(sound))
		})
	}
}

func TestCompareFindsDefects(t *testing.T) {
	expectFailures(t)
	for _, defective := range []string{
		"forgets who has a lock",
		"refuses a tenure that it has granted",
		"grants every lock to everybody",
		"forgets what was withdrawn",
		"releases whoever has the lock",
		"renews what is over",
		"withdraws every tenure",
		"has one token for all",
		"says that it broke every lock",
		"counts no holds",
		"has no queue",
		"forgets who is queued",
		"passes with old tokens",
		"passes to the last",
		"passes what is broken",
	} {
		t.Run(defective, func(t *testing.T) {
			defects := allDefects()
			i := slices.IndexFunc(defects, func(d defect) bool { return d.name == defective })
			if i < 0 {
				t.Fatal("there is no such defect")
			}
			report := failure(func(t rapid.TB) {
				Compare(t, lockagent.PlainLock, twoStores(func(*spoilt) {}), twoStores(defects[i].spoil))
			})
			if !strings.Contains(report, "the model answers") && !strings.Contains(report, "do not grow") {
				t.Errorf("the report does not say what is wrong:\n%s", report)
			}
			if strings.Contains(report, "flaky") {
				t.Errorf("the same failure is not told to be the same:\n%s", report)
			}
		})
	}
}

// twoStores returns two spoilt stores over one new memory.
func twoStores(spoil func(*spoilt)) [2]lockagent.Store {
	store := memstore.New()
	l := newLedger()
	one, two := newSpoilt(store, l), newSpoilt(store.Share(), l)
	spoil(one)
	spoil(two)
	return [2]lockagent.Store{one, two}
}

// expectFailures sets up package rapid for tests that fail on purpose: it writes no files about
// failures, and shortens their histories for a moment only, because nobody reads them.
func expectFailures(t *testing.T) {
	for option, value := range map[string]string{"rapid.nofailfile": "true", "rapid.shrinktime": "10ms"} {
		before := flag.Lookup(option).Value.String()
		if err := flag.Set(option, value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = flag.Set(option, before) })
	}
}

// failure runs a test that has to fail, and returns its report.
func failure(test func(rapid.TB)) string {
	t := &quietT{}
	done := make(chan struct{})
	go func() { // a test that fails ends its goroutine
		defer close(done)
		test(t)
	}()
	<-done
	return t.report.String()
}

// quietT is a test that keeps its report to itself. One goroutine uses it.
type quietT struct {
	failed bool
	report strings.Builder
}

func (t *quietT) Helper()                         {}
func (t *quietT) Name() string                    { return "quiet" }
func (t *quietT) Logf(format string, args ...any) { fmt.Fprintf(&t.report, format+"\n", args...) }
func (t *quietT) Log(args ...any)                 { fmt.Fprintln(&t.report, args...) }
func (t *quietT) Failed() bool                    { return t.failed }
func (t *quietT) Fail()                           { t.failed = true }

func (t *quietT) Errorf(format string, args ...any) {
	t.Logf(format, args...)
	t.Fail()
}

func (t *quietT) Error(args ...any) {
	t.Log(args...)
	t.Fail()
}

func (t *quietT) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	t.FailNow()
}

func (t *quietT) Fatal(args ...any) {
	t.Error(args...)
	t.FailNow()
}

func (t *quietT) FailNow() {
	t.Fail()
	runtime.Goexit()
}

func (t *quietT) Skipf(format string, args ...any) { t.Fatalf(format, args...) }
func (t *quietT) Skip(args ...any)                 { t.Fatal(args...) }
func (t *quietT) SkipNow()                         { t.FailNow() }

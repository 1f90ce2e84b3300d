package channelapi_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
)

// badNames is what no lock can be called, and why.
var badNames = []struct{ name, reason string }{
	{"", "it is empty"},
	{strings.Repeat("n", 513), "it has 513 bytes, the limit is 512"},
	{"orders/\xff", "it is not valid UTF-8"},
	{"x{", "'{' without a '}'"},
	{"a}b", "'}' without a '{'"},
	{"{}z", "nothing between its first braces"},
	{"}x", "'}' without a '{'"},
	{"x{}y", "nothing between its first braces"},
	{"x}{y", "'}' before its first '{'"},
	{"x}{y}", "'}' before its first '{'"},
}

func TestBadName(t *testing.T) {
	ctx := t.Context()
	locks := open(t)
	s := openSession(t, locks, "alice")
	good := locks.Lock(name)
	for _, bad := range badNames {
		l, sl := locks.Lock(lockagent.Name(bad.name)), s.Lock(lockagent.Name(bad.name))
		if got := string(l.Name()); got != bad.name {
			t.Errorf("Name() = %q, want %q", got, bad.name)
		}
		_, lockErr := l.Lock(ctx)
		_, tryErr := l.TryLock(ctx)
		_, sessionErr := sl.Lock(ctx)
		_, forceErr := l.ForceUnlock(ctx)
		_, inspectErr := l.Inspect(ctx)
		_, _, firstErr := channelapi.First(ctx, l.With(), sl.With())
		_, allErr := channelapi.All(ctx, good.With(), l.With())
		for what, err := range map[string]error{
			"Acquire":         (<-l.Acquire(ctx)).Err(),
			"Lock":            lockErr,
			"TryLock":         tryErr,
			"Session.Lock":    sessionErr,
			"Release":         <-l.Release(),
			"Unlock":          l.Unlock(ctx),
			"Session.Release": <-sl.Release(),
			"Session.Unlock":  sl.Unlock(ctx),
			"ForceRelease":    (<-l.ForceRelease()).Err,
			"ForceUnlock":     forceErr,
			"Status":          (<-l.Status()).Err,
			"Inspect":         inspectErr,
			"First":           firstErr,
			"All":             allErr,
		} {
			what = fmt.Sprintf("%s of %.20q", what, bad.name)
			wantErr(t, what, err, lockagent.ErrBadName)
			wrong, ok := errors.AsType[*lockagent.NameError](err)
			if !ok || wrong.Name != bad.name || !strings.Contains(wrong.Reason, bad.reason) {
				t.Errorf("%s: %v, want a NameError because %s", what, err, bad.reason)
			}
		}
	}
	unlock(t, hold(t, good)) // which All gave back
}

func TestGoodName(t *testing.T) {
	locks := open(t)
	for _, good := range []lockagent.Name{
		"x", lockagent.Name(strings.Repeat("n", 512)), "{a}", "a{b}c", "{a}{b", "{a}}", "{{a}", "ä ö\n\x00",
	} {
		unlock(t, hold(t, locks.Lock(good)))
	}
}

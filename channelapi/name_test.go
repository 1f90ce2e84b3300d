package channelapi_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
)

// badNames maps wrong names to the reasons in their errors.
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
		l, sl := locks.Lock(bad.name), s.Lock(bad.name)
		if got := string(l.Name()); got != bad.name {
			t.Errorf("Name() = %q, want %q", got, bad.name)
		}
		_, lockErr := l.Acquire(ctx)
		_, tryErr := l.TryAcquire(ctx)
		_, sessionErr := sl.Acquire(ctx)
		_, breakErr := l.Break(ctx, "")
		_, statusErr := l.Status(ctx)
		_, firstErr := channelapi.First(ctx, l, sl)
		_, allErr := channelapi.All(ctx, good, l)
		for what, err := range map[string]error{
			"AcquireAsync":         (<-l.AcquireAsync(ctx)).Err(),
			"Acquire":              lockErr,
			"TryAcquire":           tryErr,
			"Do":                   l.Do(ctx, nil),
			"Turns":                (<-l.Turns(ctx)).Err(),
			"Session.Acquire":      sessionErr,
			"Session.ReleaseAsync": <-sl.ReleaseAsync(ctx),
			"Session.Release":      sl.Release(ctx),
			"BreakAsync":           (<-l.BreakAsync(ctx, "")).Err,
			"Break":                breakErr,
			"StatusAsync":          (<-l.StatusAsync(ctx)).Err,
			"Status":               statusErr,
			"First":                firstErr,
			"All":                  allErr,
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
	for _, good := range []string{
		"x", strings.Repeat("n", 512), "{a}", "a{b}c", "{a}{b", "{a}}", "{{a}", "ä ö\n\x00",
	} {
		unlock(t, hold(t, locks.Lock(good)))
	}
}

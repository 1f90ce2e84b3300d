package channelapi_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
)

// Every call of a handle with a wrong name says so. Which names are wrong is up to [lockagent.ParseName].
func TestBadName(t *testing.T) {
	ctx := t.Context()
	locks := open(t)
	s := openSession(t, locks, "alice")
	good := locks.Lock(name)
	const bad = "x{"
	l, sl := locks.Lock(bad), s.Lock(bad)
	if got := string(l.Name()); got != bad {
		t.Errorf("Name() = %q, want %q", got, bad)
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
		wantErr(t, what, err, lockagent.ErrBadName)
		wrong, ok := errors.AsType[*lockagent.NameError](err)
		if !ok || wrong.Name != bad || !strings.Contains(wrong.Reason, "'{' without a '}'") {
			t.Errorf("%s: %v, want a NameError because of the brace", what, err)
		}
	}
	unlock(t, hold(t, good)) // which All gave back
}

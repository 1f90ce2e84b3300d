package channelapi_test

import (
	"context"
	"testing"

	"github.com/lockagent/lockagent/channelapi"
)

// A handle without a session has no Release, so it cannot be used like a mutex by mistake.
func TestOnlyASessionsLockCanBeReleased(t *testing.T) {
	type releaser interface {
		Release(ctx context.Context) error
	}
	if _, ok := any(&channelapi.Lock{}).(releaser); ok {
		t.Error("a Lock has a Release")
	}
	if _, ok := any(&channelapi.SessionLock{}).(releaser); !ok {
		t.Error("a SessionLock has no Release")
	}
}

// Every method of a zero handle returns an error.
func TestZeroHandles(t *testing.T) {
	for _, l := range []channelapi.AnyLock{&channelapi.Lock{}, &channelapi.SessionLock{}} {
		_, acquireErr := l.Acquire(t.Context())
		_, tryErr := l.TryAcquire(t.Context())
		_, statusErr := l.(inspectable).Status(t.Context())
		_, firstErr := channelapi.First(t.Context(), l)
		_, allErr := channelapi.All(t.Context(), l)
		for what, err := range map[string]error{
			"Acquire": acquireErr, "TryAcquire": tryErr, "Status": statusErr, "First": firstErr, "All": allErr,
			"AcquireAsync": (<-l.AcquireAsync(t.Context())).Err(), "Turns": (<-l.Turns(t.Context())).Err(),
			"Do":                         l.Do(t.Context(), nil),
			"SessionLock.Release":        new(channelapi.SessionLock).Release(t.Context()),
			"Break":                      (<-new(channelapi.Lock).BreakAsync(t.Context(), "")).Err,
			"FirstAsync (for its bound)": (<-channelapi.FirstAsync(t.Context(), l)).Err(),
		} {
			wantErr(t, what, err, channelapi.ErrBadOption)
		}
	}
}

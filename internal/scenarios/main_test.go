// Package scenarios has the acceptance tests. Most come from Redisson's tests of its locks. A thread of
// those tests is an owner here, and a client is an agent. The name of each test has the id of its
// scenario. docs/scenarios.md lists all scenarios.
//
// What the kinds of locks have in common is written once: [shared] lists it, and [kinds] the kinds.
package scenarios

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/waittest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// wantLost fails unless err is a loss for this reason.
func wantLost(t testing.TB, what string, err error, why channelapi.LossReason) {
	t.Helper()
	if lost, ok := errors.AsType[*channelapi.LostError](err); !ok || lost.Reason != why {
		t.Errorf("%s: %v, want that it was lost: %v", what, err, why)
	}
}

// receive returns what comes on a channel.
func receive[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	return waittest.Receive(t, "what comes on a channel", c)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

package lockagent_test

import (
	"testing"

	"github.com/lockagent/lockagent"
)

func TestHeldBy(t *testing.T) {
	for _, c := range []struct {
		status lockagent.Status
		owner  lockagent.Owner
		want   bool
	}{
		{lockagent.Status{Locked: true, Owner: "alice"}, "alice", true},
		{lockagent.Status{Locked: true, Owner: "alice"}, "bob", false},
		{lockagent.Status{Locked: false, Owner: "alice"}, "alice", false},
		{lockagent.Status{Locked: true}, "", false}, // held elsewhere, by we know not whom
		{lockagent.Status{}, "", false},
	} {
		if got := c.status.HeldBy(c.owner); got != c.want {
			t.Errorf("%+v held by %q: %t, want %t", c.status, c.owner, got, c.want)
		}
	}
}

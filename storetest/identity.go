package storetest

import (
	"testing"

	"github.com/lockagent/lockagent"
)

var identityClauses = []clause{
	{
		name: "it is the same for all agents",
		says: "All Stores of one store, in all processes, have the same one.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			if a, b := one.identity(), two.identity(); a != b {
				t.Errorf("identity %q for one store, %q for another", a, b)
			}
		},
	},
	{
		name: "it survives a reset, or the store tells",
		says: "A reset does not change it, or the store tells of the change: see [Reset].Store.",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			former := one.identity()
			two.identity()
			told, toldTwo := one.onReset(), two.onReset()
			h.reset(t)
			one.renew(theLock, 1, minute) // now it knows that something is wrong
			two.renew(theLock, 1, minute)
			three := h.agent(t) // perhaps it comes before the others have noticed
			now := three.identity()
			if now != former {
				awaitOtherIdentity(t, told, former)
				awaitOtherIdentity(t, toldTwo, former)
			}
			if a, b := one.identity(), two.identity(); a != now || b != now {
				t.Errorf("identities %q, %q and %q after the reset, %q before", a, b, now, former)
			}
		},
	},
}

// identity waits until the store knows its identity.
func (p *party) identity() (identity string) {
	p.t.Helper()
	history, _ := lockagent.Layer[lockagent.History](p.store)
	eventually(p.t, "the identity is known", func() bool {
		p.inspect(theLock)
		identity = history.Identity()
		return identity != ""
	})
	return identity
}

// awaitOtherIdentity waits until a store tells that its identity is not the former one any more.
func awaitOtherIdentity(t *testing.T, told <-chan lockagent.Reset, former string) {
	t.Helper()
	for {
		reset, ok := awaitReset(t, told)
		if !ok || reset.Store == former {
			return
		}
	}
}

package storetest

import (
	"testing"

	"github.com/lockagent/lockagent"
)

// twinClauses are about agents that have one identity.
var twinClauses = []clause{
	{
		name: "agents with identities of their own are alone",
		says: "If there is one, hear gets a [MessageTwin] soon after the [MessagesMissed], and otherwise a [MessageAlone].",
		prove: func(t *testing.T, h *Harness) {
			one, two := h.pair(t)
			one.tells(lockagent.MessageAlone)
			two.tells(lockagent.MessageAlone)
		},
	},
	{
		name: "the agent that comes later is told",
		says: "MessageTwin: another agent that is alive listens under the identity of this one, and came first.",
		prove: func(t *testing.T, h *Harness) {
			one := h.agent(t)
			one.tells(lockagent.MessageAlone)
			for range rounds {
				twin := one.twin(h)
				twin.tells(lockagent.MessageTwin)
				twin.messages.Cancel()
			}
			if n := one.messages.Count(lockagent.MessageTwin); n > 0 {
				t.Errorf("the agent that came first was told %d times", n)
			}
		},
	},
	{
		name: "an agent whose twin is told goes on",
		says: "So this one ends, and makes no further call for a tenure.",
		prove: func(t *testing.T, h *Harness) {
			one := h.agent(t)
			one.tells(lockagent.MessageAlone)
			one.acquire(theLock, 1)
			one.twin(h).tells(lockagent.MessageTwin)
			one.renew(theLock, 1, minute)
			one.breaks(theLock, true)
			one.hears(lockagent.MessageBroken, 1)
		},
	},
	{
		name: "an agent that goes on with the work of one that is gone is alone",
		says: "Each agent that is alive has an identity of its own.",
		prove: func(t *testing.T, h *Harness) {
			one := h.agent(t)
			for range rounds {
				one.tells(lockagent.MessageAlone)
				one.messages.Cancel()
				one = one.twin(h)
			}
			one.tells(lockagent.MessageAlone)
			one.close()
			one.twin(h).tells(lockagent.MessageAlone)
		},
	},
	{
		name: "two agents of one store are told apart",
		says: "The other agent may be in another process, with another Store.",
		prove: func(t *testing.T, h *Harness) {
			one := h.agent(t)
			one.tells(lockagent.MessageAlone)
			twin := *one
			twin.messages = Listen(t, one.store, one.id)
			twin.tells(lockagent.MessageTwin)
		},
	},
}

// twin is another agent with the identity of p, and a store of its own.
func (p *party) twin(h *Harness) *party {
	p.t.Helper()
	store := h.Open(p.t)
	p.t.Cleanup(func() { _ = store.Close() })
	return &party{t: p.t, store: store, kind: p.kind, id: p.id, messages: Listen(p.t, store, p.id)}
}

// tells waits until the store has told whether the agent is alone.
func (p *party) tells(verdict lockagent.MessageKind) {
	p.t.Helper()
	p.messages.Await(verdict, "", lockagent.Tenure{})
}

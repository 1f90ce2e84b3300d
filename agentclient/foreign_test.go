package agentclient

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent/actor"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// foreign is a context that is not of package context, and whose code may fail when a child of it ends.
type foreign struct {
	context.Context
	fails bool
}

func (f *foreign) Value(k any) any {
	if f.fails {
		panic("a foreign context")
	}
	return f.Context.Value(k)
}

// The parent of a context of a grant may panic when the hold ends. The claim goes back all the same.
func TestParentOfAContextPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocked()
		g := c.granted(t, actor.Request{}, time.Hour)
		parent := &foreign{Context: t.Context()}
		ctx := g.Context(parent)
		parent.fails = true
		g.ReleaseAsync(t.Context())
		parent.fails = false
		if ctx.Err() == nil {
			t.Error("the context goes on")
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if !slices.ContainsFunc(c.commands, func(x *lockagentv1.Command) bool { return x.GetRelease() != nil }) {
			t.Errorf("the claim was not given back: %v", c.commands)
		}
	})
}

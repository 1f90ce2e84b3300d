package lockagent_test

import (
	"context"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/memstore"
)

// bare is a store without layers: the interface has six methods.
type bare struct{ lockagent.Store }

// decorated has the layers of its store, and breaks its locks in a way of its own.
type decorated struct{ lockagent.Store }

func (d decorated) Unwrap() lockagent.Store { return d.Store }

func (decorated) Break(_ context.Context, _ lockagent.BreakRequest, done func(lockagent.BreakReply, error)) {
	done(lockagent.BreakReply{At: 42}, nil)
}

func (decorated) Inspect(context.Context, lockagent.Name, lockagent.LockKind, func(lockagent.Inspection, error)) {
}

func TestLayersOfADecoratedStore(t *testing.T) {
	memory := memstore.New()
	for _, s := range []lockagent.Store{memory, decorated{memory}, decorated{decorated{memory}}} {
		if history, ok := lockagent.Layer[lockagent.History](s); !ok || history.Identity() != memory.Identity() {
			t.Errorf("%T: the history is %v", s, history)
		}
	}
	operator, ok := lockagent.Layer[lockagent.Operator](decorated{decorated{memory}})
	if !ok {
		t.Fatal("a decorator hides the operator")
	}
	operator.Break(t.Context(), lockagent.BreakRequest{Name: "door"}, func(r lockagent.BreakReply, _ error) {
		if r.At != 42 {
			t.Errorf("the break went past the decorator: %+v", r)
		}
	})
	for _, s := range []lockagent.Store{bare{memory}, decorated{bare{memory}}, decorated{decorated{bare{memory}}}} {
		if _, ok := lockagent.Layer[lockagent.Operator](s); ok {
			t.Errorf("%T: an operator was invented", s)
		}
		if _, ok := lockagent.Layer[lockagent.History](s); ok {
			t.Errorf("%T: a history was found where none is", s)
		}
	}
}

package client

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// blind is a daemon whose client may look at nothing.
type blind struct {
	lockagentv1connect.LookServiceClient
}

func (blind) List(_ context.Context, r *lockagentv1.ListRequest) (*lockagentv1.ListResponse, error) {
	if !r.GetOnlyVisible() {
		return nil, wire.Refuse(refusal.ErrForbidden)
	}
	return &lockagentv1.ListResponse{}, nil
}

// Whoever may look at nothing may do other things with a name, as a lock of the kind that is meant where nobody says a
// kind.
func TestTheKindForWhoMayNotLook(t *testing.T) {
	d := &Daemon{Look: blind{}}
	for given, want := range map[KindFlag]lockagentv1.Kind{
		"": lockagentv1.Kind_KIND_READ_WRITE, "fair": lockagentv1.Kind_KIND_FAIR,
	} {
		var asked []lockagentv1.Kind
		err := d.OfKind(t.Context(), "door", given, func(is lockagentv1.Kind) error {
			asked = append(asked, is)
			return nil
		})
		if err != nil || !slices.Equal(asked, []lockagentv1.Kind{want}) {
			t.Errorf("asked for %v: %v", asked, err)
		}
	}
}

// A lock that another host has as another kind than lockagent lock takes is looked at as that kind.
func TestTheKindThatALockIsInUseAs(t *testing.T) {
	d := &Daemon{Look: blind{}}
	for given, want := range map[KindFlag]int{"": 2, "fair": 1} {
		asked := 0
		err := d.OfKind(t.Context(), "door", given, func(is lockagentv1.Kind) error {
			if asked++; is == lockagentv1.Kind_KIND_PLAIN {
				return nil
			}
			return wire.Refuse(&lockagent.KindError{Name: "door", Kind: wire.ToKind(is), Used: lockagent.PlainLock})
		})
		if asked != want || errors.Is(err, lockagent.ErrWrongKind) != (given != "") {
			t.Errorf("%q: asked %d times: %v", given, asked, err)
		}
	}
}

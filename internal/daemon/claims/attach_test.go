package claims

import (
	"errors"
	"testing"
	"time"

	"github.com/lockagent/lockagent/internal/daemon/refusal"
	"github.com/lockagent/lockagent/memstore"
)

func TestAttach(t *testing.T) {
	in(t, func(t *testing.T, b *Book, _ *memstore.Store) {
		s := ask(t, b, Request{Client: ann, Name: "door", Detach: true, TTL: time.Minute})
		g := read[Granted](t, s)
		over(t, s)
		if _, err := b.Attach(ann, g.Claim, "guess", nil); !errors.Is(err, refusal.ErrNoClaim) {
			t.Error(err)
		}
		attach := func() *Stream {
			t.Helper()
			s, err := b.Attach(ann, g.Claim, g.Secret, nil)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		again := attach()
		if h := read[Granted](t, again); h.Grant != g.Grant || h.Claim != g.Claim {
			t.Errorf("%+v, want %+v", h, g)
		}
		pass(time.Hour) // it is not detached any more
		read[Renewed](t, again)
		last := attach()
		over(t, again) // and not because the claim ended
		again.Close()
		read[Granted](t, last)
		counts(t, b, 1, 0)
		last.Close()
		free(t, b, "door")
	})
}

func TestAttachToAClaimThatWaits(t *testing.T) {
	in(t, func(t *testing.T, b *Book, _ *memstore.Store) {
		holder := ask(t, b, Request{Client: ann, Name: "door"})
		read[Granted](t, holder)
		waits := ask(t, b, Request{Client: bob, Name: "door"})
		q := read[Queued](t, waits)
		again, err := b.Attach(ann, q.Claim, q.Secret, nil)
		if err != nil {
			t.Fatal(err)
		}
		waits.Close()
		read[Queued](t, again)
		holder.Close()
		read[Granted](t, again)
		again.Close()
		free(t, b, "door")
	})
}

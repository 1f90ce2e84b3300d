package claims

import (
	"errors"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	"github.com/lockagent/lockagent/memstore"
)

// A claim that is released in a while holds its lock until then, without its client, also after a restart.
func TestAClaimThatIsReleasedInAWhile(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for _, restarts := range []bool{false, true} {
			s := ask(t, w.book, Request{Client: ann, Name: "door"})
			g := read[Granted](t, s)
			next := ask(t, w.book, Request{Client: bob, Name: "door"})
			read[Queued](t, next)
			if kept, err := w.book.ReleaseIn(g.Claim, g.Secret, time.Minute); !kept || err != nil {
				t.Fatalf("%v, %v", kept, err)
			}
			over(t, s)
			s.Close()
			counts(t, w.book, 1, 1)
			if l := w.book.Lock("door"); !l.Holders[0].Detached {
				t.Errorf("%+v", l)
			}
			if restarts {
				w.restart(time.Second)
				next = w.attached(bob, next.claim.id, next.secret)
				read[Queued](t, next)
			}
			pass(58 * time.Second)
			counts(t, w.book, 1, 1)
			w.book.mu.Lock()
			c := w.book.claims[g.Claim]
			w.book.mu.Unlock()
			pass(3 * time.Second)
			read[Granted](t, next)
			w.book.mu.Lock()
			cause := c.cause
			w.book.mu.Unlock()
			if cause != nil { // it was released, and not lost
				t.Errorf("it ended with %v", cause)
			}
			next.Close()
			free(t, w.book, "door")
		}
	})
}

func TestAClaimThatIsKeptEndsSooner(t *testing.T) {
	in(t, func(t *testing.T, b *Book, _ *memstore.Store) {
		g := read[Granted](t, ask(t, b, Request{Client: ann, Name: "door"}))
		if kept, err := b.ReleaseIn(g.Claim, g.Secret, time.Hour); !kept || err != nil {
			t.Fatalf("%v, %v", kept, err)
		}
		if ended, err := b.Release(background, g.Claim, g.Secret, 0); !ended || err != nil {
			t.Errorf("%v, %v", ended, err)
		}
		free(t, b, "door")

		g = read[Granted](t, ask(t, b, Request{Client: ann, Name: "door"}))
		if _, err := b.ReleaseIn(g.Claim, g.Secret, time.Minute); err != nil {
			t.Fatal(err)
		}
		s, err := b.Attach(ann, g.Claim, g.Secret, nil) // it is the client's again
		if err != nil {
			t.Fatal(err)
		}
		read[Granted](t, s)
		pass(time.Hour)
		counts(t, b, 1, 0)
		s.Close()
		free(t, b, "door")
	})
}

func TestAClaimThatCannotBeKept(t *testing.T) {
	in(t, func(t *testing.T, b *Book, _ *memstore.Store) {
		g := read[Granted](t, ask(t, b, Request{Client: ann, Name: "door"}))
		waits := read[Queued](t, ask(t, b, Request{Client: ann, Name: "door"}))
		for what, test := range map[string]struct {
			claim, secret string
			keep          time.Duration
			err           error
		}{
			"no claim":       {"none", g.Secret, time.Minute, nil},
			"another secret": {g.Claim, "wrong", time.Minute, refusal.ErrNoClaim},
			"no time":        {g.Claim, g.Secret, 0, lockagent.ErrBadOption},
			"too long":       {g.Claim, g.Secret, 2 * lockagent.MaxLease, lockagent.ErrBadOption},
			"it waits":       {waits.Claim, waits.Secret, time.Minute, nil},
		} {
			if kept, err := b.ReleaseIn(test.claim, test.secret, test.keep); kept || !errors.Is(err, test.err) {
				t.Errorf("%s: %v, %v", what, kept, err)
			}
		}
		counts(t, b, 1, 1)
	})
}

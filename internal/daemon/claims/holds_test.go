package claims

import (
	"errors"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	"github.com/lockagent/lockagent/memstore"
)

func TestAClaimOfSeveralHolds(t *testing.T) {
	in(t, func(t *testing.T, b *Book, _ *memstore.Store) {
		first := ask(t, b, Request{Client: ann, Name: "door", Holds: 3})
		g := read[Granted](t, first)
		if g.Holds != 3 {
			t.Errorf("%d holds, want 3", g.Holds)
		}
		token := g.Grant.Token()
		for n, want := range map[lockagent.Token]bool{token - 1: false, token: true, token + 2: true, token + 3: false} {
			if b.Holds("door", n) != want {
				t.Errorf("token %d is current: %v, of a claim with the tokens %d to %d", n, !want, token, token+2)
			}
		}
		second := ask(t, b, Request{Client: bob, Name: "door"})
		first.Close()
		h := read[Granted](t, second)
		if h.Holds != 1 || h.Grant.Token() <= token+2 {
			t.Errorf("token %d for %d holds after the tokens %d to %d", h.Grant.Token(), h.Holds, token, token+2)
		}
		if b.Holds("door", token+1) {
			t.Error("the token of a claim that is over is current")
		}
		second.Close()
		free(t, b, "door")
	})
}

// The budget of the agent bounds what a claim gets.
func TestAClaimGetsFewerHolds(t *testing.T) {
	in(t, func(t *testing.T, b *Book, _ *memstore.Store) {
		var streams []*Stream
		for range actor.DefaultHandOffGrants/refusal.MaxHolds + 2 {
			streams = append(streams, ask(t, b, Request{Client: ann, Name: "door", Holds: refusal.MaxHolds - 1}))
		}
		var last lockagent.Token
		fewer := false
		for _, s := range streams {
			var g Granted
			for g.Holds == 0 { // it may have been queued before
				e, err := s.Next(background)
				if err != nil {
					t.Fatal(err)
				}
				g, _ = e.(Granted)
			}
			if g.Grant.Token() <= last || g.Holds > refusal.MaxHolds-1 {
				t.Errorf("token %d for %d holds, after %d", g.Grant.Token(), g.Holds, last)
			}
			last = g.Grant.Token() + lockagent.Token(g.Holds-1)
			fewer = fewer || g.Holds < refusal.MaxHolds-1
			s.Close()
		}
		if !fewer {
			t.Error("no claim was at the end of the budget")
		}
		free(t, b, "door")
	})
}

// The journal does not have how many holds a request wants. So one that goes on to wait gets one.
func TestSeveralHoldsAfterARestart(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		g := read[Granted](t, ask(t, w.book, Request{Client: ann, Name: "door", Holds: 3}))
		q := read[Queued](t, ask(t, w.book, Request{Client: bob, Name: "door", Holds: 3}))
		w.restart(time.Second)
		token := g.Grant.Token()
		if !w.book.Holds("door", token+2) {
			t.Error("the third token is not current any more")
		}
		first, second := w.attached(ann, g.Claim, g.Secret), w.attached(bob, q.Claim, q.Secret)
		if e := read[Granted](t, first); e.Grant.Token() != token || e.Holds != 0 {
			t.Errorf("token %d for %d holds, want %d, and the client knows for how many", e.Grant.Token(), e.Holds, token)
		}
		read[Queued](t, second)
		first.Close()
		if e := read[Granted](t, second); e.Grant.Token() <= token+2 || e.Holds != 1 {
			t.Errorf("token %d for %d holds, after %d", e.Grant.Token(), e.Holds, token+2)
		}
		second.Close()
		free(t, w.book, "door")
	})
}

func TestWhichClaimsServeSeveralHolds(t *testing.T) {
	in(t, func(t *testing.T, b *Book, _ *memstore.Store) {
		for _, req := range []Request{
			{Kind: lockagent.FairLock},
			{Kind: lockagent.ReadWriteLock, Mode: lockagent.Shared},
			{Kind: lockagent.ReadWriteLock},
			{Kind: lockagent.SpinLock},
			{Kind: lockagent.Semaphore},
			{Session: "one"},
		} {
			req.Client, req.Name, req.Holds = ann, "door", 2
			s := ask(t, b, req)
			if bad, ok := errors.AsType[*lockagent.OptionError](read[Ended](t, s).Cause); !ok || bad.Option != "holds" {
				t.Errorf("%+v: %v", req, bad)
			}
			s.Close()
		}
		s := ask(t, b, Request{Client: ann, Name: "door", Kind: lockagent.FencedLock, Holds: 2})
		if g := read[Granted](t, s); g.Holds != 2 {
			t.Errorf("a fenced lock: %d holds", g.Holds)
		}
		s.Close()
		counts(t, b, 0, 0)
	})
}

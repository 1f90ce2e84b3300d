package api

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/internal/daemon/claims"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	"github.com/lockagent/lockagent/memstore"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The store is silent. A client that asks for ever more extensions waits with its commands, and the daemon does not
// grow.
func TestExtensionsUnderWayAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, answers := newLink(0), make(chan struct{})
		k.linked[1] = &linked{ref: 1, stream: new(claims.Stream)}
		waits := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			return k.await(ctx)
		}
		silent := func(*claims.Stream) (claims.Deadline, error) {
			<-answers
			return 1, nil
		}
		asked := 0
		for ; asked < 2*maxUntold && waits() == nil; asked++ {
			k.extend(t.Context(), 1, uint64(asked), silent)
		}
		if asked != maxUntold {
			t.Errorf("%d extensions are under way, and the bound is %d", asked, maxUntold)
		}
		if err := waits(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want a command that waits", err)
		}
		close(answers)
		synctest.Wait()
		told := 0
		for told < asked {
			events, err := k.next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			told += len(events)
		}
		if err := waits(); err != nil {
			t.Errorf("all has been told, and a command waits: %v", err)
		}
	})
}

// The end of a claim is found after the client has released it, and has another one with its number. That one stays.
func TestTheEndOfAClaimWhoseNumberIsAnothers(t *testing.T) {
	k, before, now := newLink(0), &linked{ref: 1}, &linked{ref: 1}
	k.linked[1] = now
	if k.drop(before); k.linked[1] != now {
		t.Error("the other claim is gone")
	}
	if k.drop(now); len(k.linked) != 0 {
		t.Error("a claim that is over is there")
	}
}

// others lets nobody use the secret of another user.
type others struct{ Access }

func (others) Use(context.Context, uint32, lockagent.Name) error { return refusal.ErrNoClaim }

// Whoever has seen the secret of a claim cannot attach to it on a link either.
func TestASecretOfAnotherUserOnALink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		agent, err := actor.New(actor.Config{Store: store})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = errors.Join(agent.Close(), store.Close()) }()
		book, err := claims.New(claims.Config{})
		if err != nil {
			t.Fatal(err)
		}
		book.Begin(agent)
		s, err := book.Acquire(claims.Request{
			Client: claims.Client{PID: 1, UID: 1001}, Name: "door", Kind: lockagent.PlainLock,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		e, err := s.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		granted := e.(claims.Granted)
		l := &locks{Config: Config{
			Book: book, Access: others{},
			Client: func(context.Context) (claims.Client, bool) { return claims.Client{PID: 2, UID: 1002}, true },
		}}
		k := newLink(1002)
		attach := &lockagentv1.AttachRequest{Claim: granted.Claim, Secret: granted.Secret}
		if err := l.do(t.Context(), k, &lockagentv1.Command{
			Ref: 1, Command: &lockagentv1.Command_Attach{Attach: attach},
		}); err != nil {
			t.Fatal(err)
		}
		events, err := k.next(t.Context())
		if err != nil || len(events) != 1 || !errors.Is(wire.ToError(events[0].GetRefused()), refusal.ErrNoClaim) {
			t.Errorf("got %v, %v", events, err)
		}
	})
}

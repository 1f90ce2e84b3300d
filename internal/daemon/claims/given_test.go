package claims

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/quota"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	"github.com/lockagent/lockagent/memstore"
)

// A claim is given up, and its end has not come yet. Nobody finds it by then.
func TestAClaimThatIsGivenUpIsNotFound(t *testing.T) {
	in(t, func(t *testing.T, b *Book, _ *memstore.Store) {
		s := ask(t, b, Request{Client: ann, Name: "door", Detach: true, TTL: time.Hour})
		g := read[Granted](t, s)
		over(t, s)
		given := func(is bool) {
			b.mu.Lock()
			defer b.mu.Unlock()
			s.claim.given = is
		}
		given(true)
		if _, err := b.Attach(ann, g.Claim, g.Secret, nil); !errors.Is(err, refusal.ErrNoClaim) {
			t.Errorf("Attach: %v", err)
		}
		if _, err := b.Renew(background, g.Claim, g.Secret, time.Hour, 0); !errors.Is(err, refusal.ErrNoClaim) {
			t.Errorf("Renew: %v", err)
		}
		given(false)
		if ended, err := b.Release(background, g.Claim, g.Secret, 0); !ended || err != nil {
			t.Errorf("Release: %t, %v", ended, err)
		}
		free(t, b, "door")
	})
}

// A claim that does not wait is not one too many of those that wait.
func TestTheQuotaOfWaitersIsForThoseThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := openWith(t, map[quota.Kind]quota.Bound{quota.Waiters: {Each: 1}})
		req := Request{Client: ann, Name: "door"}
		holder := ask(t, b, req)
		read[Granted](t, holder)
		waits := ask(t, b, req)
		read[Queued](t, waits)
		if _, err := b.Acquire(req); !errors.Is(err, refusal.ErrQuota) {
			t.Errorf("a second one that waits: %v", err)
		}
		req.Try = true
		tries := ask(t, b, req)
		if e := read[Ended](t, tries); !errors.Is(e.Cause, lockagent.ErrHeld) {
			t.Errorf("one that does not wait: %v", e.Cause)
		}
		for _, s := range []*Stream{tries, waits, holder} {
			s.Close()
		}
		free(t, b, "door")
	})
}

// A hold may outlive its stream. A claim that waits for one does not.
func TestWhatWaitsDoesNotOutliveItsStream(t *testing.T) {
	in(t, func(t *testing.T, b *Book, _ *memstore.Store) {
		holder := ask(t, b, Request{Client: ann, Name: "door"})
		read[Granted](t, holder)
		waits := ask(t, b, Request{Client: bob, Name: "door", Lease: time.Hour, Outlive: true})
		read[Queued](t, waits)
		waits.Close()
		synctest.Wait()
		counts(t, b, 1, 0)
		holder.Close()
		free(t, b, "door")
	})
}

// The daemon has left its claims to the next one, which releases what is released now.
func TestReleaseAfterTheDaemonHasLeft(t *testing.T) {
	in(t, func(t *testing.T, b *Book, _ *memstore.Store) {
		s := ask(t, b, Request{Client: ann, Name: "door", Detach: true, TTL: time.Hour})
		g := read[Granted](t, s)
		over(t, s)
		b.Leave()
		if ended, err := b.Release(background, g.Claim, g.Secret, 0); ended || !errors.Is(err, lockagent.ErrClosed) {
			t.Errorf("Release: %t, %v", ended, err)
		}
	})
}

// Its client counts the hold as lost, and all who look hear the same. The lock is free all the same.
func TestReleaseOfWhatIsLost(t *testing.T) {
	in(t, func(t *testing.T, b *Book, _ *memstore.Store) {
		for what, release := range map[string]func(*Stream, Granted) error{
			"of the book": func(_ *Stream, g Granted) error {
				_, err := b.Release(background, g.Claim, g.Secret, lockagent.LostDeadline)
				return err
			},
			"of the stream": func(s *Stream, _ Granted) error { return <-s.Release(lockagent.LostDeadline) },
		} {
			s := ask(t, b, Request{Client: ann, Name: "door"})
			g := read[Granted](t, s)
			if err := release(s, g); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if lost, ok := errors.AsType[*lockagent.LostError](g.Grant.Cause()); !ok || lost.Reason != lockagent.LostDeadline {
				t.Errorf("%s: the hold has ended by %v", what, g.Grant.Cause())
			}
			if what == "of the book" {
				if e := read[Ended](t, s); !errors.Is(e.Cause, lockagent.ErrLost) {
					t.Errorf("ended because of %v", e.Cause)
				}
			}
			s.Close()
			free(t, b, "door")
		}
	})
}

// A detached claim whose time to live has passed is lost to its client, and all who look hear the same.
func TestADetachedClaimThatNobodyRenewsIsLost(t *testing.T) {
	in(t, func(t *testing.T, b *Book, _ *memstore.Store) {
		s := ask(t, b, Request{Client: ann, Name: "door", Detach: true, TTL: time.Minute})
		g := read[Granted](t, s)
		over(t, s)
		pass(time.Minute)
		free(t, b, "door")
		endedBy(t, g, lockagent.LostExpired)
	})
}

// endedBy checks how a hold has ended.
func endedBy(t *testing.T, g Granted, why lockagent.LossReason) {
	t.Helper()
	if lost, ok := errors.AsType[*lockagent.LostError](g.Grant.Cause()); !ok || lost.Reason != why {
		t.Errorf("the hold has ended by %v, want %v", g.Grant.Cause(), why)
	}
}

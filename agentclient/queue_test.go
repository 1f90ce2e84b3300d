package agentclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// took are the commands since the last call, as text.
func (c *clocked) took() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var said []string
	for _, x := range c.commands {
		switch {
		case x.GetAcquire() != nil:
			within := ""
			if wait := x.GetAcquire().GetWait(); wait != nil {
				within = fmt.Sprint(" within ", wait.AsDuration())
			}
			said = append(
				said, fmt.Sprintf("acquire %d for %d%s", x.GetRef(), max(1, x.GetAcquire().GetHolds()), within),
			)
		case x.GetAttach() != nil:
			said = append(said, fmt.Sprint("attach ", x.GetRef()))
		case x.GetRelease() != nil:
			said = append(said, fmt.Sprint("release ", x.GetRef()))
		}
	}
	c.commands = nil
	return strings.Join(said, ", ")
}

func (c *clocked) wantTook(t *testing.T, want string) {
	t.Helper()
	synctest.Wait()
	if got := c.took(); got != want {
		t.Fatalf("the daemon is told %q, want %q", got, want)
	}
}

// tells has the daemon say something of a claim.
func (c *clocked) tells(ref uint64, e *lockagentv1.ClaimEvent) {
	c.hear(&lockagentv1.LinkEvent{Ref: ref, What: &lockagentv1.LinkEvent_Event{Event: e}})
}

func (c *clocked) grants(ref uint64, token lockagent.Token, holds int) {
	c.mu.Lock()
	secret := ""
	if x := c.claims[ref]; x != nil {
		secret = x.Secret
	}
	c.mu.Unlock()
	c.tells(ref, &lockagentv1.ClaimEvent{Event: &lockagentv1.ClaimEvent_Granted{Granted: &lockagentv1.Granted{
		Claim: fmt.Sprint("claim", ref), Secret: secret, Token: uint64(token), Count: 1,
		Deadline: c.deadline(10 * time.Second), Holds: int32(holds),
	}}})
}

func (c *clocked) breaks(ref uint64) {
	c.tells(ref, &lockagentv1.ClaimEvent{Event: &lockagentv1.ClaimEvent_Ended{Ended: &lockagentv1.Ended{
		How: &lockagentv1.Ended_Lost{Lost: &lockagentv1.Lost{Reason: lockagentv1.LossReason_LOSS_REASON_BROKEN}},
	}}})
}

// asks asks for the lock, once for each owner.
func (c *clocked) asks(ctx context.Context, owners ...lockagent.Owner) (out []<-chan lockagent.Grant) {
	for _, o := range owners {
		out = append(out, c.Acquire(ctx, "door", actor.Request{Owner: o}))
	}
	return out
}

// wantGrant receives a grant, which must be there.
func wantGrant(t *testing.T, from <-chan lockagent.Grant, token lockagent.Token) lockagent.Grant {
	t.Helper()
	synctest.Wait()
	select {
	case g := <-from:
		if g.Err() != nil || g.Token() != token || !g.Held() {
			t.Fatalf("granted token %d, held %v, %v; want token %d", g.Token(), g.Held(), g.Err(), token)
		}
		return g
	default:
		t.Fatal("not granted")
	}
	return lockagent.Grant{}
}

func release(t *testing.T, g lockagent.Grant) {
	t.Helper()
	select {
	case err := <-g.ReleaseAsync(t.Context()):
		if err != nil {
			t.Fatalf("release: %v", err)
		}
	default: // the daemon has not answered
	}
}

// queued is a test of the queue: ann has had the lock alone, and bob, cid and dan wait behind her. bob's claim, with
// ref 2, is granted for some holds from token 20 on.
func queued(
	t *testing.T, holds int, test func(t *testing.T, c *clocked, bob lockagent.Grant, cid, dan <-chan lockagent.Grant),
) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocked()
		wait := c.asks(t.Context(), "ann", "bob", "cid", "dan")
		c.wantTook(t, "acquire 1 for 1")
		c.grants(1, 7, 1)
		release(t, wantGrant(t, wait[0], 7))
		c.wantTook(t, "release 1, acquire 2 for 64")
		c.hear(&lockagentv1.LinkEvent{Ref: 1, What: &lockagentv1.LinkEvent_Released{Released: &lockagentv1.Failure{}}})
		c.grants(2, 20, holds)
		test(t, c, wantGrant(t, wait[1], 20), wait[2], wait[3])
		_ = c.drain()
		c.mu.Lock()
		for ref := range c.claims {
			c.settle(c.claims[ref], nil)
		}
		c.mu.Unlock()
		c.wantEmpty(t)
	})
}

// wantEmpty checks that nothing is left of requests.
func (c *clocked) wantEmpty(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.claims)+len(c.names)+len(c.queues) > 0 {
		t.Errorf("left are %d claims, %d names, %d queues", len(c.claims), len(c.names), len(c.queues))
	}
}

func TestOneClaimServesTheQueue(t *testing.T) {
	queued(t, 64, func(t *testing.T, c *clocked, bob lockagent.Grant, cid, dan <-chan lockagent.Grant) {
		release(t, bob)
		if bob.Held() || !errors.Is(bob.Cause(), lockagent.ErrReleased) {
			t.Errorf("bob's hold goes on: %v", bob.Cause())
		}
		g := wantGrant(t, cid, 21)
		time.Sleep(5 * time.Second) // a hold may last
		c.tells(2, &lockagentv1.ClaimEvent{
			Event: &lockagentv1.ClaimEvent_Renewed{
				Renewed: &lockagentv1.Renewed{Deadline: c.deadline(10 * time.Second)},
			},
		})
		time.Sleep(9 * time.Second)
		if !g.Held() {
			t.Error("the claim was renewed, and cid has lost the lock")
		}
		release(t, g)
		c.took()
		_ = dan
	})
	queued(t, 3, func(t *testing.T, c *clocked, bob lockagent.Grant, cid, dan <-chan lockagent.Grant) {
		release(t, bob)
		release(t, wantGrant(t, cid, 21))
		release(t, wantGrant(t, dan, 22))
		c.wantTook(t, "release 2")
	})
}

func TestTheNextClaimFollowsTheRelease(t *testing.T) {
	const next = "release 2, acquire 3 for 64" // in that order
	t.Run("when the holds are used up", func(t *testing.T) {
		for _, holds := range []int{0, 1} { // an older daemon says nothing
			queued(t, holds, func(t *testing.T, c *clocked, bob lockagent.Grant, _, _ <-chan lockagent.Grant) {
				release(t, bob)
				c.wantTook(t, next)
			})
		}
	})
	t.Run("when several holds are used up", func(t *testing.T) {
		queued(t, 2, func(t *testing.T, c *clocked, bob lockagent.Grant, cid, _ <-chan lockagent.Grant) {
			release(t, bob)
			release(t, wantGrant(t, cid, 21))
			c.wantTook(t, "release 2, acquire 4 for 64")
		})
	})
	t.Run("when the time has passed", func(t *testing.T) {
		queued(t, 64, func(t *testing.T, c *clocked, bob lockagent.Grant, _, _ <-chan lockagent.Grant) {
			time.Sleep(handOnTime)
			release(t, bob)
			c.wantTook(t, next)
		})
	})
	t.Run("when the deadline has passed", func(t *testing.T) {
		queued(t, 64, func(t *testing.T, c *clocked, bob lockagent.Grant, _, _ <-chan lockagent.Grant) {
			c.tells(2, &lockagentv1.ClaimEvent{
				Event: &lockagentv1.ClaimEvent_Renewed{Renewed: &lockagentv1.Renewed{Deadline: c.deadline(1)}},
			})
			c.asleep = 1
			_ = bob.ReleaseAsync(t.Context())
			if e, ok := errors.AsType[*lockagent.LostError](bob.Cause()); !ok || e.Reason != lockagent.LostDeadline ||
				e.Token != 20 {
				t.Errorf("bob's hold ended by %v", bob.Cause())
			}
			c.wantTook(t, next)
		})
	})
	t.Run("when the claim is over", func(t *testing.T) {
		queued(t, 64, func(t *testing.T, c *clocked, bob lockagent.Grant, _, _ <-chan lockagent.Grant) {
			c.breaks(2)
			if e, ok := errors.AsType[*lockagent.LostError](bob.Cause()); !ok || e.Reason != lockagent.LostBroken ||
				e.Token != 20 {
				t.Errorf("bob's hold ended by %v", bob.Cause())
			}
			c.wantTook(t, "acquire 3 for 64")
		})
	})
	t.Run("when the claim ends while the holder is told of the end", func(t *testing.T) {
		queued(t, 64, func(t *testing.T, c *clocked, bob lockagent.Grant, _, _ <-chan lockagent.Grant) {
			(*hold)(c.claims[2]).EndWith(context.Background(), func(error) { c.breaks(2) })
			release(t, bob)
			c.wantTook(t, next)
		})
	})
	t.Run("when the daemon has not confirmed the claim over a new link", func(t *testing.T) {
		queued(t, 64, func(t *testing.T, c *clocked, bob lockagent.Grant, cid, _ <-chan lockagent.Grant) {
			_ = c.unlinked(errEnded)
			c.resume()
			c.wantTook(t, "attach 2")
			release(t, bob)
			c.wantTook(t, next)
		})
	})
	t.Run("after the link is back, when there was none", func(t *testing.T) {
		queued(t, 64, func(t *testing.T, c *clocked, bob lockagent.Grant, cid, _ <-chan lockagent.Grant) {
			_ = c.unlinked(errEnded)
			release(t, bob)
			c.wantTook(t, "")
			c.resume()
			c.wantTook(t, "attach 2, release 2, acquire 3 for 64")
		})
	})
}

func TestAClaimGoesOnServingAfterARestart(t *testing.T) {
	queued(t, 64, func(t *testing.T, c *clocked, bob lockagent.Grant, cid, dan <-chan lockagent.Grant) {
		release(t, bob)
		g := wantGrant(t, cid, 21)
		_ = c.unlinked(errEnded)
		c.resume()
		c.grants(2, 20, 1) // the next daemon knows the token of the claim
		if !g.Held() {
			t.Fatalf("cid has lost the lock: %v", g.Cause())
		}
		c.wantTook(t, "attach 2")
		release(t, g)
		wantGrant(t, dan, 22)
		c.wantTook(t, "")
	})
	queued(t, 64, func(t *testing.T, c *clocked, bob lockagent.Grant, _, _ <-chan lockagent.Grant) {
		_ = c.unlinked(errEnded)
		c.resume()
		c.grants(2, 33, 64) // another grant than the one that was told
		if bob.Held() {
			t.Error("bob holds the lock by a grant that is over")
		}
		c.wantTook(t, "attach 2, acquire 3 for 64")
	})
}

func TestWhoLeavesTheQueue(t *testing.T) {
	t.Run("first gives its place to the next", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newClocked()
			ctx, cancel := context.WithCancel(t.Context())
			ann := c.asks(ctx, "ann")[0]
			bob := c.asks(t.Context(), "bob")[0]
			c.tells(1, &lockagentv1.ClaimEvent{
				Event: &lockagentv1.ClaimEvent_Queued{
					Queued: &lockagentv1.Queued{Claim: "claim1", Secret: "s", Holder: "somebody"},
				},
			})
			cancel()
			c.wantTook(t, "acquire 1 for 1")
			if e, ok := errors.AsType[*lockagent.WaitError]((<-ann).Err()); !ok || e.Holder != "somebody" ||
				e.Silent != 0 || !errors.Is(e, context.Canceled) {
				t.Errorf("ann: %+v", e)
			}
			c.grants(1, 7, 1)
			g := wantGrant(t, bob, 7)
			release(t, g)
			c.wantTook(t, "release 1")
			time.Sleep(time.Minute)
			c.wantEmpty(t)
		})
	})
	t.Run("in the middle is not missed, and learns who has the lock", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newClocked()
			ann := c.asks(t.Context(), "ann")[0]
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			bob := c.asks(ctx, "bob")[0]
			cid := c.asks(t.Context(), "cid")[0]
			c.grants(1, 7, 64)
			g := wantGrant(t, ann, 7)
			time.Sleep(time.Millisecond)
			synctest.Wait()
			if e, ok := errors.AsType[*lockagent.WaitError]((<-bob).Err()); !ok || e.Holder != "ann" || !e.TimedOut ||
				e.Silent != 0 {
				t.Errorf("bob: %+v", e)
			}
			release(t, g)
			release(t, wantGrant(t, cid, 8))
			c.wantTook(t, "acquire 1 for 1, release 1")
			time.Sleep(time.Minute)
			c.wantEmpty(t)
		})
	})
	t.Run("after a grant that nobody received hands it on", func(t *testing.T) {
		queued(t, 64, func(t *testing.T, c *clocked, bob lockagent.Grant, cid, dan <-chan lockagent.Grant) {
			ctx, cancel := context.WithCancel(t.Context())
			eve := c.asks(ctx, "eve")[0]
			fay := c.asks(t.Context(), "fay")[0]
			release(t, bob)
			release(t, wantGrant(t, cid, 21))
			release(t, wantGrant(t, dan, 22))
			synctest.Wait() // eve has the lock
			cancel()
			wantGrant(t, fay, 24)
			if g, ok := <-eve; ok {
				t.Errorf("eve received %v", g)
			}
			c.wantTook(t, "")
		})
	})
	t.Run("is refused alone", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newClocked()
			wait := c.asks(t.Context(), "ann", "bob")
			c.hear(&lockagentv1.LinkEvent{
				Ref: 1, What: &lockagentv1.LinkEvent_Refused{Refused: failed(lockagent.ErrNotPermitted)},
			})
			if err := (<-wait[0]).Err(); !errors.Is(err, lockagent.ErrNotPermitted) {
				t.Errorf("ann: %v", err)
			}
			c.wantTook(t, "acquire 1 for 1, acquire 2 for 64")
			_ = c.drain()
			if err := (<-wait[1]).Err(); !errors.Is(err, lockagent.ErrClosed) {
				t.Errorf("bob: %v", err)
			}
			time.Sleep(time.Minute)
			c.wantEmpty(t)
		})
	})
	t.Run("leaves no claim that the daemon could not take to others", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newClocked()
			ctx, cancel := context.WithCancel(t.Context())
			_ = c.asks(ctx, "ann")
			_ = c.asks(t.Context(), "bob")
			c.hear(&lockagentv1.LinkEvent{
				Ref: 1, What: &lockagentv1.LinkEvent_Refused{Refused: failed(refusal.ErrDraining)},
			})
			cancel() // before the pause after which she asks again
			c.wantTook(t, "acquire 1 for 1, release 1, acquire 2 for 64")
			time.Sleep(time.Minute)
			_ = c.drain()
			time.Sleep(time.Minute)
			c.wantEmpty(t)
		})
	})
}

// failed is the message for an error.
func failed(err error) *lockagentv1.Failure {
	f, _ := wire.FromError(err)
	return f
}

func TestWhoWaitsForLongHasAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocked()
		_ = c.asks(t.Context(), "ann")
		c.grants(1, 7, 1)
		_ = c.asks(t.Context(), "bob")
		time.Sleep(patienceInQueue / 2)
		cid := c.asks(t.Context(), "cid")[0]
		c.wantTook(t, "acquire 1 for 1")
		time.Sleep(patienceInQueue / 2)
		c.wantTook(t, "acquire 2 for 1")
		time.Sleep(patienceInQueue / 2)
		c.wantTook(t, "acquire 3 for 1")
		c.grants(3, 9, 1)
		wantGrant(t, cid, 9)
		_ = c.drain()
		time.Sleep(time.Minute)
	})
}

func TestRequestsWithAClaimOfTheirOwn(t *testing.T) {
	for what, req := range map[string]actor.Request{
		"try":        {Try: true},
		"lease":      {Lease: time.Second},
		"session":    {Session: true},
		"shared":     {Kind: lockagent.ReadWriteLock, Mode: lockagent.Shared},
		"writer":     {Kind: lockagent.ReadWriteLock},
		"fair":       {Kind: lockagent.FairLock},
		"semaphore":  {Kind: lockagent.Semaphore},
		"other kind": {Kind: lockagent.FencedLock},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClocked()
				_ = c.asks(t.Context(), "ann")
				req.Owner = "bob"
				_ = c.Acquire(t.Context(), "door", req)
				c.wantTook(t, "acquire 1 for 1, acquire 2 for 1")
				_ = c.drain()
				time.Sleep(time.Minute)
				c.wantEmpty(t)
			})
		})
	}
}

// The daemon's events of a claim belong to a trace. Most traces are not sampled.
func TestARequestWithASampledTraceHasAClaimOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocked()
		traces := map[string]string{
			"ann": "", "bob": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
			"cid": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03",
		}
		type of struct{}
		c.cfg.TraceParent = func(ctx context.Context) string { return traces[ctx.Value(of{}).(string)] }
		for _, o := range []string{"ann", "bob", "cid"} {
			_ = c.asks(context.WithValue(t.Context(), of{}, o), lockagent.Owner(o))
		}
		c.wantTook(t, "acquire 1 for 1, acquire 3 for 1")
		_ = c.drain()
		time.Sleep(time.Minute)
		c.wantEmpty(t)
	})
}

package actor

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
	"github.com/lockagent/lockagent/memstore"
)

// The state machine panics whatever is asked of it. Whoever sends the message that finds out has an answer, and the
// lock is of use afterwards.
func TestEveryMessageIsAnsweredIfTheStatePanics(t *testing.T) {
	result := func(r lockagent.Result[bool]) error { return r.Err }
	for name, ask := range map[string]func(*testing.T, *Agent, lockagent.Grant) error{
		"a request": func(t *testing.T, a *Agent, _ lockagent.Grant) error {
			return await(t, "request", a.Acquire(background, "door", who("bob"))).Err()
		},
		"a request without re-entry": func(t *testing.T, a *Agent, _ lockagent.Grant) error {
			req := again("bob")
			req.NoReentry = true
			return await(t, "request", a.Acquire(background, "door", req)).Err()
		},
		"Lock": func(t *testing.T, a *Agent, _ lockagent.Grant) error {
			return a.Lock(background, "door", who("bob")).Err()
		},
		"a release": func(t *testing.T, _ *Agent, g lockagent.Grant) error {
			return await(t, "release", g.ReleaseAsync(background))
		},
		"a release in person": func(_ *testing.T, _ *Agent, g lockagent.Grant) error { return g.Release(background) },
		"a release by owner": func(t *testing.T, a *Agent, _ lockagent.Grant) error {
			return await(t, "release", a.Release(background, "door", "ann"))
		},
		"a release by owner and mode": func(t *testing.T, a *Agent, _ lockagent.Grant) error {
			return await(t, "release", a.ReleaseMode(background, "door", "ann", lockagent.Exclusive))
		},
		"Leave": func(t *testing.T, a *Agent, _ lockagent.Grant) error {
			return await(t, "leave", a.Leave(background, "door", "ann"))
		},
		"a break": func(t *testing.T, a *Agent, _ lockagent.Grant) error {
			return result(await(t, "break", a.Break("door", lockagent.PlainLock, "")))
		},
		"a break of one hold": func(t *testing.T, a *Agent, g lockagent.Grant) error {
			return result(await(t, "break", a.BreakHold("door", lockagent.PlainLock, g.Token(), "")))
		},
		"an extension": func(t *testing.T, _ *Agent, g lockagent.Grant) error {
			lostBecause(t, await(t, "extension", g.ExtendAsync(background, time.Minute)), lockagent.LostInternal)
			return lockagent.ErrInternal
		},
		"Status": func(t *testing.T, a *Agent, _ lockagent.Grant) error {
			s := await(t, "status", a.Status("door", lockagent.PlainLock))
			if s.Err == nil && s.Value.Locked {
				return lockagent.ErrInternal // it tells what the store knows
			}
			return s.Err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				a := start(t, Config{Store: store, Logger: quiet})
				g := granted(t, a.Acquire(background, "door", Request{Owner: "ann", Lease: time.Minute}))
				synctest.Wait()
				a.actorOf("door").state = (*lockstate.State)(nil)
				if err := ask(t, a, g); !errors.Is(err, lockagent.ErrInternal) {
					t.Errorf("the answer is %v", err)
				}
				lostBecause(t, g.Cause(), lockagent.LostInternal)
				settled(t, a, store, "door")
			})
		})
	}
}

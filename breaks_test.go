package lockagent_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
	"github.com/lockagent/lockagent/redisstore"
)

// attentive is a store that tells when its agent has been handed a message that a tenure is over, or may be.
type attentive struct {
	*redisstore.Store
	told chan lockagent.MessageKind
}

func (s *attentive) Listen(agent lockagent.AgentID, hear func(lockagent.Message)) (cancel func()) {
	return s.Store.Listen(agent, func(m lockagent.Message) {
		hear(m)
		switch m.Kind {
		case lockagent.MessageBroken, lockagent.MessagesMissed:
			s.told <- m.Kind
		}
	})
}

// A program uses a lock over and over again, and the lock rests in its agent. Somebody breaks the lock, or empties
// the server, and another agent is granted it. The first agent is told, and from then on it begins no hold until the
// other one is done.
func TestNoHoldBeginsAfterTheLockIsBroken(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	ways := []struct {
		title string
		ends  func(t *testing.T, by *channelapi.Lock, name string)
		told  lockagent.MessageKind
	}{
		{"broken", func(t *testing.T, by *channelapi.Lock, _ string) {
			broken, err := by.Break(t.Context(), "olga")
			if must(t, err); !broken {
				t.Error("nobody held the lock")
			}
		}, lockagent.MessageBroken},
		{"forgotten", func(*testing.T, *channelapi.Lock, string) { redis.Do("FLUSHALL") }, lockagent.MessagesMissed},
	}
	for title, lockOf := range map[string]func(*channelapi.Locks, string) *channelapi.Lock{
		"plain":  func(l *channelapi.Locks, name string) *channelapi.Lock { return l.Lock(name) },
		"fenced": func(l *channelapi.Locks, name string) *channelapi.Lock { return l.FencedLock(name) },
	} {
		for _, way := range ways {
			name := title + " " + way.title
			if !t.Run(name, func(t *testing.T) {
				config := patient
				config.Grace = redisstore.GraceOff // otherwise nobody is granted what was forgotten
				store, err := config.Open(t.Context(), redis.URL())
				must(t, err)
				t.Cleanup(func() { must(t, store.Close()) })
				told := make(chan lockagent.MessageKind, 1000) // more than there are
				first, err := channelapi.New(channelapi.Config{Store: &attentive{store, told}})
				must(t, err)
				t.Cleanup(func() { _ = first.Close() })
				other := openAgent(t, noGrace, redis.Addr(), channelapi.Config{})
				lock, next := lockOf(first, name), lockOf(other, name)

				ctx := waittest.Context(t)
				for { // until the lock is held in a tenure that may rest
					g, err := lock.Acquire(ctx)
					must(t, err)
					if rests(redis, name) {
						defer func() { _ = g.Release(t.Context()) }()
						break
					}
					must(t, g.Release(t.Context()))
				}
				for len(told) > 0 {
					<-told
				}
				way.ends(t, next, name)
				held, err := next.Acquire(ctx)
				must(t, err)

				var knows, free atomic.Bool
				var loop sync.WaitGroup
				defer loop.Wait()
				stop := make(chan struct{})
				defer close(stop)
				loop.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						knew := knows.Load()
						g, err := lock.Acquire(ctx)
						switch {
						case err == nil:
						case errors.Is(err, lockagent.ErrLost) && !knew:
							continue // the hold ended before this goroutine had the grant
						default:
							t.Errorf("a use of the lock: %v", err) // the test would wait in vain for another one
							return
						}
						if knew && (!free.Load() || g.Token() <= held.Token()) {
							t.Errorf("granted %d beside %d", g.Token(), held.Token())
							return
						}
						_ = g.Release(t.Context())
						if knew {
							return
						}
					}
				})
				for kind := lockagent.MessageKind(0); kind != way.told; {
					kind = waittest.Receive(t, "the first agent to be told", told)
				}
				_, err = lock.Status(t.Context()) // so it has processed the message
				must(t, err)
				knows.Store(true)
				for s := (channelapi.Status{}); s.Waiters == 0 && !t.Failed(); {
					s, err = lock.Status(ctx)
					must(t, err)
				}
				if !held.Held() {
					t.Errorf("the other agent has lost the lock: %v", held.Cause())
				}
				free.Store(true)
				must(t, held.Release(t.Context()))
				loop.Wait()
			}) {
				return
			}
		}
	}
}

// rests reports whether the tenure that has a lock may rest.
func rests(redis *redistest.Server, name string) bool {
	fields := fmt.Sprint(redis.Do("HVALS", name))
	return fields == "[12]" || fields == "[14]"
}

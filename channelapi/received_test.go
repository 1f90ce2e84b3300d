package channelapi_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/lockagent/lockagent/channelapi"
)

// ways are the ways to get a grant of one lock from a channel.
var ways = map[string]func(context.Context, channelapi.AnyLock) (receive func() channelapi.Grant){
	"AcquireAsync": func(ctx context.Context, l channelapi.AnyLock) func() channelapi.Grant {
		c := l.AcquireAsync(ctx)
		return func() channelapi.Grant { return <-c }
	},
	"Turns": func(ctx context.Context, l channelapi.AnyLock) func() channelapi.Grant {
		c := l.Turns(ctx)
		return func() channelapi.Grant { return <-c }
	},
	"FirstAsync": func(ctx context.Context, l channelapi.AnyLock) func() channelapi.Grant {
		c := channelapi.FirstAsync(ctx, l)
		return func() channelapi.Grant { return <-c }
	},
	"AllAsync": func(ctx context.Context, l channelapi.AnyLock) func() channelapi.Grant {
		c := channelapi.AllAsync(ctx, l)
		return func() channelapi.Grant {
			got := <-c
			if err := got.Err(); err != nil {
				return channelapi.Grant{}
			}
			return got.List()[0]
		}
	},
}

// A session releases what it has received, and nothing that still lies in a channel.
func TestReleaseLeavesWhatWasNotReceived(t *testing.T) {
	for what, way := range ways {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := openSession(t, open(t), "alice").Lock(name)
				older := hold(t, l)
				receive := way(t.Context(), l)
				synctest.Wait()
				wantErr(t, "Release of the older grant", l.Release(t.Context()), nil)
				wantErr(t, "Cause of the older grant", older.Cause(), channelapi.ErrReleased)
				wantErr(t, "Release of no grant", l.Release(t.Context()), channelapi.ErrNotHeld)
				g := receive()
				if !g.Held() {
					t.Fatalf("the grant from the channel: %v, %v", g.Err(), g.Cause())
				}
				wantErr(t, "Release of the received grant", l.Release(t.Context()), nil)
				wantErr(t, "Cause of the received grant", g.Cause(), channelapi.ErrReleased)
			})
		})
	}
}

// A session does not release a lock that All has, while All waits for another.
func TestReleaseLeavesWhatAllHas(t *testing.T) {
	ways := map[string]func(context.Context, ...channelapi.AnyLock) <-chan channelapi.Grants{
		"AllAsync": channelapi.AllAsync,
		"DoAll": func(ctx context.Context, locks ...channelapi.AnyLock) <-chan channelapi.Grants {
			c := make(chan channelapi.Grants, 1)
			go func() {
				_ = channelapi.DoAll(ctx, func(ctx context.Context, grants []channelapi.Grant) error {
					c <- channelapi.Grants{}
					<-ctx.Done()
					return nil
				}, locks...) // it finds that one lock is released already
			}()
			return c
		},
	}
	for what, way := range ways {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				locks := open(t)
				s := openSession(t, locks, "alice")
				b := hold(t, locks.Lock("b"))
				all := way(t.Context(), s.Lock("a"), s.Lock("b"))
				synctest.Wait()
				wantErr(t, "Release while All waits", s.Lock("a").Release(t.Context()), channelapi.ErrNotHeld)
				unlock(t, b)
				<-all
				wantErr(t, "Release", s.Lock("a").Release(t.Context()), nil)
				synctest.Wait()
				_ = s.Lock("b").Release(t.Context()) // unless DoAll has released it
			})
		})
	}
}

// A grant whose hold has ended is not in the channel any more.
func TestLostGrantIsNotReceived(t *testing.T) {
	for what, way := range ways {
		t.Run(what, func(t *testing.T) {
			for range 100 { // the goroutine behind the channel has not run yet, most often
				synctest.Test(t, func(t *testing.T) {
					l := open(t).Lock(name)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					receive := way(ctx, l)
					synctest.Wait()
					if held, err := l.Break(t.Context(), ""); !held || err != nil {
						t.Fatalf("Break: %t, %v", held, err)
					}
					if g := receive(); g.Err() == nil && !g.Held() {
						t.Fatalf("a dead grant: %v", g.Cause())
					}
				})
			}
		})
	}
}

// If a hold is lost while All waits for another lock, All gives up at once.
func TestLossWhileAllWaits(t *testing.T) {
	ways := map[string]func(context.Context, ...channelapi.AnyLock) <-chan error{
		"All": func(ctx context.Context, locks ...channelapi.AnyLock) <-chan error {
			c := make(chan error, 1)
			go func() {
				_, err := channelapi.All(ctx, locks...)
				c <- err
			}()
			return c
		},
		"AllAsync": func(ctx context.Context, locks ...channelapi.AnyLock) <-chan error {
			c := make(chan error, 1)
			go func() { c <- (<-channelapi.AllAsync(ctx, locks...)).Err() }()
			return c
		},
		"DoAllAsync": func(ctx context.Context, locks ...channelapi.AnyLock) <-chan error {
			return channelapi.DoAllAsync(ctx, func(context.Context, []channelapi.Grant) error {
				return errors.New("work ran without the locks")
			}, locks...)
		},
	}
	for what, way := range ways {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				locks := open(t)
				c := hold(t, locks.Lock("c"))
				done := way(t.Context(), locks.Lock("a"), locks.Lock("b"), locks.Lock("c"))
				synctest.Wait()
				if held, err := locks.Lock("a").Break(t.Context(), ""); !held || err != nil {
					t.Fatalf("Break: %t, %v", held, err)
				}
				err := <-done
				if lost, _ := errors.AsType[*channelapi.LostError](err); lost == nil || lost.Name != "a" ||
					lost.Reason != channelapi.LostBroken {
					t.Errorf("the error does not tell of the break: %v", err)
				}
				unlock(t, hold(t, locks.Lock("b"))) // it went back
				unlock(t, c)
			})
		})
	}
}

// The same with a grant that All was given when it tried all locks at once.
func TestLostGrantOfSeveralIsNotReceived(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			locks := open(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			a := locks.Lock("a")
			all := channelapi.AllAsync(ctx, a, locks.Lock("b"))
			synctest.Wait()
			if held, err := a.Break(t.Context(), ""); !held || err != nil {
				t.Fatalf("Break: %t, %v", held, err)
			}
			if g := <-all; g.Err() == nil && !g.List()[0].Held() {
				t.Fatalf("a dead grant: %v", g.List()[0].Cause())
			}
		})
	}
}

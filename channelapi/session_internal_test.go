package channelapi

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockagent/lockagent/memstore"
)

// A session remembers a lock as long as it holds the lock or waits for it, and no longer.
func TestSessionForgets(t *testing.T) {
	const name = "orders/42"
	for _, c := range []struct {
		what string
		use  func(t *testing.T, s *Session, other *Lock)
	}{
		{"released", func(t *testing.T, s *Session, _ *Lock) {
			first, second := <-s.Lock(name).AcquireAsync(t.Context()), <-s.Lock(name).AcquireAsync(t.Context())
			if len(s.names) != 1 || s.names[name] != (uses{asked: 2, held: 2}) {
				t.Errorf("the session remembers %v, want two holds", s.names)
			}
			if err := errors.Join(<-first.ReleaseAsync(t.Context()), <-second.ReleaseAsync(t.Context())); err != nil {
				t.Error(err)
			}
		}},
		{"released through the session", func(t *testing.T, s *Session, _ *Lock) {
			<-s.Lock(name).AcquireAsync(t.Context())
			if err := <-s.Lock(name).ReleaseAsync(t.Context()); err != nil {
				t.Error(err)
			}
		}},
		{"tried in vain", func(t *testing.T, s *Session, other *Lock) {
			<-other.AcquireAsync(t.Context())
			<-s.Lock(name, Try()).AcquireAsync(t.Context())
		}},
		{"waited in vain", func(t *testing.T, s *Session, other *Lock) {
			<-other.AcquireAsync(t.Context())
			<-s.Lock(name, Wait(time.Second)).AcquireAsync(t.Context())
		}},
		{"cancelled", func(t *testing.T, s *Session, other *Lock) {
			<-other.AcquireAsync(t.Context())
			ctx, cancel := context.WithCancel(t.Context())
			grant := s.Lock(name).AcquireAsync(ctx)
			synctest.Wait()
			cancel()
			<-grant
		}},
		{"not received", func(t *testing.T, s *Session, _ *Lock) {
			ctx, cancel := context.WithCancel(t.Context())
			s.Lock(name).AcquireAsync(ctx)
			synctest.Wait()
			cancel()
		}},
		{"cancelled before", func(t *testing.T, s *Session, _ *Lock) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			<-s.Lock(name).AcquireAsync(ctx)
		}},
		{"expired", func(t *testing.T, s *Session, _ *Lock) {
			g := <-s.Lock(name, Lease(time.Second)).AcquireAsync(t.Context())
			<-g.Done()
		}},
		{"broken", func(t *testing.T, s *Session, other *Lock) {
			<-s.Lock(name).AcquireAsync(t.Context())
			<-other.BreakAsync(t.Context(), "")
		}},
		{"bad option", func(t *testing.T, s *Session, _ *Lock) { <-s.Lock(name, Wait(0)).AcquireAsync(t.Context()) }},
		{"bad name", func(t *testing.T, s *Session, _ *Lock) { <-s.Lock("x{").AcquireAsync(t.Context()) }},
		{"agent closed", func(t *testing.T, s *Session, other *Lock) {
			<-s.Lock(name).AcquireAsync(t.Context())
			_ = other.locks.Close()
			<-s.Lock(name).AcquireAsync(t.Context())
		}},
		{"session closed", func(t *testing.T, s *Session, _ *Lock) {
			<-s.Lock(name).AcquireAsync(t.Context())
			_ = s.Close(t.Context())
			<-s.Lock(name).AcquireAsync(t.Context())
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				locks, err := New(Config{Store: memstore.New()})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = locks.Close() }()
				s, err := locks.Session("alice")
				if err != nil {
					t.Fatal(err)
				}
				c.use(t, s, locks.Lock(name))
				synctest.Wait()
				if len(s.names) != 0 {
					t.Errorf("the session still remembers %v", s.names)
				}
				if err := s.Close(t.Context()); err != nil {
					t.Errorf("Close: %v", err)
				}
				if n := len(locks.sessions); n != 0 {
					t.Errorf("the agent still remembers %d sessions", n)
				}
			})
		})
	}
}

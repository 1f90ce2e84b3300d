package channeltest

import (
	"errors"
	"time"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/waittest"
)

func (s *suite) leases() {
	g := s.hold(s.a.Lock(name, channelapi.Lease(time.Hour)))
	s.ok("Extend", g.Extend(s.ctx, 2*time.Hour))
	if g.Remaining() < 90*time.Minute {
		s.Errorf("%v remain after the extension", g.Remaining())
	}
	s.want("Extend with no lease", g.Extend(s.ctx, 0), channelapi.ErrBadOption)
	s.ok("Release", g.Release(s.ctx))
	s.want("Extend after the release", g.Extend(s.ctx, time.Hour), channelapi.ErrNotHeld)
	kept := s.hold(s.a.Lock(name))
	s.want("Extend of a kept lease", kept.Extend(s.ctx, time.Hour), channelapi.ErrBadOption)
	s.ok("Release", kept.Release(s.ctx))
	err := channelapi.ErrLeaseTooShort // for what a busy machine needs
	for lease := 50 * time.Millisecond; errors.Is(err, channelapi.ErrLeaseTooShort); lease *= 2 {
		g, err = s.a.Lock("short", channelapi.Lease(lease)).Acquire(s.ctx)
	}
	s.ok("Acquire with a short lease", err)
	s.lost(g, channelapi.LostExpired)
}

func (s *suite) sharesLease() {
	session := s.session(s.a, "alice")
	outer := s.hold(session.Lock(name, channelapi.Lease(time.Hour)))
	until := func(what string, is func(left time.Duration) bool) {
		s.Helper()
		waittest.Until(s, what, func() bool {
			if !outer.Held() {
				s.Fatalf("%s: %v", what, outer.Cause())
			}
			return is(outer.Remaining())
		})
	}
	inner := s.hold(session.Lock(name, channelapi.Lease(3*time.Hour)))
	until("re-entry", func(left time.Duration) bool { return left > 2*time.Hour })
	s.ok("Extend", inner.Extend(s.ctx, 5*time.Hour))
	until("extension", func(left time.Duration) bool { return left > 4*time.Hour })
	s.ok("Release", inner.Release(s.ctx))
	s.ok("Release", outer.Release(s.ctx))

	const brief = 10 * time.Second // and a kept lease has 30 s
	outer = s.hold(session.Lock(name, channelapi.Lease(brief)))
	inner = s.hold(session.Lock(name))
	until("kept re-entry", func(left time.Duration) bool { return left > 2*brief })
	s.ok("Release", inner.Release(s.ctx))
	if left := outer.Remaining(); left < brief {
		s.Errorf("the release of the kept hold leaves %v", left)
	}
	inner = s.hold(session.Lock(name))
	s.ok("Extend beside a kept hold", outer.Extend(s.ctx, 5*time.Hour))
	s.ok("Release", inner.Release(s.ctx))
	until("extension beside a kept hold", func(left time.Duration) bool { return left > 4*time.Hour })
	inner = s.hold(session.Lock(name))
	s.ok("Release", inner.Release(s.ctx))
	until("kept re-entry after the extension", func(left time.Duration) bool { return left > 4*time.Hour })
	s.ok("Release", outer.Release(s.ctx))
}

func (s *suite) outlives() {
	stay := []channelapi.Option{channelapi.Lease(time.Hour), channelapi.Outlive()}
	for how, before := range map[string]func(locks *channelapi.Locks) *channelapi.Locks{
		"free":          nil,
		"passed":        func(*channelapi.Locks) *channelapi.Locks { return s.b },
		"after another": func(locks *channelapi.Locks) *channelapi.Locks { return locks },
	} {
		for end, close := range map[string]func(*channelapi.Locks) error{
			"Close":    (*channelapi.Locks).Close,
			"Shutdown": func(l *channelapi.Locks) error { return l.Shutdown(s.ctx) },
		} {
			locks := s.open(s.T)
			door := how + "/" + end
			var first channelapi.Grant
			if before != nil {
				first = s.hold(before(locks).Lock(door))
			}
			waiting := locks.Lock(door, stay...).AcquireAsync(s.ctx)
			if before != nil {
				waittest.Until(s, "the request waits", func() bool {
					st, err := locks.Lock(door).Status(s.ctx)
					s.ok("Status", err)
					return st.Waiters > 0
				})
				s.ok("Release", first.Release(s.ctx))
			}
			g := <-waiting
			s.ok(door, g.Err())
			s.ok(end, close(locks))
			s.lost(g, channelapi.LostClosed)
			if st, err := s.b.Lock(door).Status(s.ctx); err != nil || !st.Locked || st.Remaining < 55*time.Minute {
				s.Errorf("%s: Status is %+v, %v", door, st, err)
			}
		}
	}
}

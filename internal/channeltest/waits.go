package channeltest

import (
	"context"
	"errors"
	"time"

	"github.com/lockagent/lockagent/channelapi"
)

func (s *suite) boundsWaits() {
	for _, l := range []*channelapi.Locks{s.a, s.b} { // those of the holder, and others
		g := s.hold(s.a.Lock(name))
		var ends []<-chan channelapi.Grant
		wait := func(options ...channelapi.Option) <-chan channelapi.Grant {
			return l.Lock(name, options...).AcquireAsync(s.ctx)
		}
		long := wait(channelapi.Wait(time.Hour))
		for range 3 {
			ends = append(ends, wait(channelapi.Wait(time.Millisecond)), wait(channelapi.Wait(5*time.Millisecond)))
		}
		endless := wait()
		last := wait(channelapi.Wait(time.Hour))
		for _, end := range ends {
			err := (<-end).Err()
			if e, ok := errors.AsType[*channelapi.WaitError](err); !ok || !e.TimedOut || e.Name != name || e.Kind != "plain" {
				s.Errorf("a wait that passes: %#v", err)
			}
			s.want("it", err, channelapi.ErrTimeout)
		}
		s.queued(l, 3)
		s.ok("Release", g.Release(s.ctx))
		token := g.Token()
		for _, waiting := range []<-chan channelapi.Grant{long, endless, last} {
			g := <-waiting
			s.ok("the next grant", g.Err())
			if g.Token() <= token {
				s.Errorf("token %d after %d", g.Token(), token)
			}
			token = g.Token()
			s.ok("Release", g.Release(s.ctx))
		}
		ended, cancel := context.WithCancel(s.ctx)
		cancel()
		_, late := l.Lock(name).Acquire(ended)
		_, passed := l.Lock(name, channelapi.Wait(-1)).Acquire(s.ctx)
		for _, err := range []error{late, passed} {
			if e, ok := errors.AsType[*channelapi.WaitError](err); !ok || e.Name != name || e.Kind != "plain" {
				s.Errorf("a request that is too late: %#v", err)
			}
		}
	}
}

package channeltest

import (
	"context"

	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/waittest"
)

// wants has another process, and then another owner of this one, want what a holder has.
func (s *suite) wants() {
	for _, kind := range []func(*channelapi.Locks) channelapi.AnyLock{
		func(l *channelapi.Locks) channelapi.AnyLock { return l.Lock("plain") },
		func(l *channelapi.Locks) channelapi.AnyLock { return l.FairLock("fair") },
		func(l *channelapi.Locks) channelapi.AnyLock { return l.FencedLock("fenced") },
		func(l *channelapi.Locks) channelapi.AnyLock { return l.SpinLock("spin") },
		func(l *channelapi.Locks) channelapi.AnyLock { return l.WriteLock("written") },
	} {
		for _, other := range []*channelapi.Locks{s.b, s.a} {
			s.wantsFrom(kind(s.a), kind(other))
		}
	}
	g := s.hold(s.a.ReadLock("read"))
	s.wantedBy(g, s.b.WriteLock("read"))
	s.ok("Release", g.Release(s.ctx))
	if c := (channelapi.Grant{}).Wanted(); c != nil {
		s.Error("nobody can want what was never held")
	}
}

func (s *suite) wantsFrom(l, other channelapi.AnyLock) {
	s.Helper()
	g := s.hold(l)
	s.wantedBy(g, other)
	s.ok("Release", g.Release(s.ctx))
}

// wantedBy has somebody wait for a lock for a while.
func (s *suite) wantedBy(g channelapi.Grant, by channelapi.AnyLock) {
	s.Helper()
	wanted := g.Wanted()
	select {
	case <-wanted:
		s.Errorf("%s is wanted, and nobody waits", g.Name())
	default:
	}
	ctx, cancel := context.WithCancel(s.ctx)
	waits := by.AcquireAsync(ctx)
	waittest.Receive(s, "the holder is told", wanted)
	cancel()
	waittest.Receive(s, "the end of the wait", waits)
	waittest.Receive(s, "it stays so", g.Wanted())
	select {
	case <-g.Uncertain():
		s.Errorf("the hold of %s is uncertain", g.Name())
	case <-g.Done():
		s.Errorf("the hold of %s is over: %v", g.Name(), g.Cause())
	default:
	}
}

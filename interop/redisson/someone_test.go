package redisson

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/waittest"
)

// both is a world with Java and with locks of ours, for tests that follow each other.
type both struct {
	*world
	java *process
	ours *channelapi.Locks

	hears  *hearing          // the store of ours
	others *channelapi.Locks // of ours, too, but of another agent
}

// start starts both sides, with a lease that they keep.
func (w *world) start(t *testing.T, lease time.Duration) *both {
	t.Helper()
	return w.with(t, w.startJava(t, lease), lease)
}

// with adds our side to that of Java.
func (w *world) with(t *testing.T, java *process, lease time.Duration) *both {
	t.Helper()
	hears := &hearing{Store: w.store(t)}
	return &both{w, java, w.locks(t, hears, lease), hears, w.open(t, lease)}
}

// thing is what somebody may have of a name. The kind is one of the driver's. A semaphore has one permit.
type thing struct{ kind, name string }

// make makes a thing that must be made before somebody can have it.
func (b *both) make(t *testing.T, w thing) {
	t.Helper()
	var err error
	switch w.kind {
	case "semaphore":
		_, err = b.ours.Semaphore(w.name).TrySetPermits(t.Context(), 1)
	case "permits":
		_, err = b.ours.Permits(w.name).TrySetPermits(t.Context(), 1)
	}
	must(t, err)
}

// someone has asked for a thing, and may have it: a thread of Java or a request of ours.
type someone struct {
	thing
	lease   time.Duration
	java    *object                 // nil if it is one of ours
	granted <-chan answer           // of Java
	permit  string                  // of Java
	grant   <-chan channelapi.Grant // of ours
	held    channelapi.Grant
}

// come makes somebody ask for a thing, with a lease that may be kept. who begins with j or g, for Java or Go.
func (b *both) come(t *testing.T, w thing, who string, lease time.Duration) *someone {
	t.Helper()
	s := &someone{thing: w, lease: lease}
	if strings.HasPrefix(who, "j") {
		s.java = &object{b.java, who, w.kind, w.name}
		s.ask()
		return s
	}
	var opts []channelapi.Option
	if lease != kept {
		opts = append(opts, channelapi.Lease(lease))
	}
	s.grant = taken(request(t.Context(), b.ours, w, opts...))
	return s
}

// taken receives what comes for a test that may be late. A grant that nobody receives is taken back.
func taken[T any](from <-chan T) <-chan T {
	to := make(chan T, 1)
	go func() { to <- <-from }()
	return to
}

// ask sends the request of a thread of Java.
func (s *someone) ask() {
	switch s.kind {
	case "semaphore":
		s.granted = s.java.send("acquire", 1)
	case "permits":
		s.granted = s.java.send("acquire", 1, s.lease)
	default:
		s.granted = s.java.send("lock", s.lease)
	}
}

// request is a request of ours.
func request(ctx context.Context, ours *channelapi.Locks, w thing, opts ...channelapi.Option) <-chan channelapi.Grant {
	switch w.kind {
	case "semaphore":
		return ours.Semaphore(w.name, opts...).AcquireAsync(ctx, 1)
	case "permits":
		return ours.Permits(w.name, opts...).AcquireAsync(ctx, 1)
	}
	return lockOf(ours, w.kind)(w.name, opts...).AcquireAsync(ctx)
}

// lockOf is what makes a lock of ours of a kind of the driver's.
func lockOf(ours *channelapi.Locks, kind string) func(string, ...channelapi.Option) *channelapi.Lock {
	return map[string]func(string, ...channelapi.Option) *channelapi.Lock{
		"plain": ours.Lock, "fair": ours.FairLock, "fenced": ours.FencedLock, "spin": ours.SpinLock,
		"read": ours.ReadLock, "write": ours.WriteLock,
	}[kind]
}

// gets waits until somebody has what it asked for.
func (s *someone) gets(t *testing.T) {
	t.Helper()
	if s.java != nil {
		s.permit = value(t, s.granted)
		return
	}
	s.held = receive(t, s.grant)
	must(t, s.held.Err())
}

// waits checks that somebody has not got it yet.
func (s *someone) waits(t *testing.T) {
	t.Helper()
	if s.java != nil {
		pending(t, s.granted)
		return
	}
	pending(t, s.grant)
}

// leaves gives back what somebody got.
func (s *someone) leaves(t *testing.T) {
	t.Helper()
	switch {
	case s.java == nil:
		release(t, s.held)
	case s.kind == "semaphore":
		s.java.do(t, "release", 1)
	case s.kind == "permits":
		s.java.do(t, "release", s.permit)
	default:
		s.java.do(t, "unlock")
	}
}

// javaWaits makes a thread of Java ask, and returns when it waits for a message: it has asked once more after it
// subscribed. Nobody else may ask meanwhile.
func (b *both) javaWaits(t *testing.T, w thing, who string) *someone {
	t.Helper()
	redis, asking := b.nodeOf(w.name), "pttl" // of the lock, if the answer is no
	if w.kind == "semaphore" || w.kind == "permits" {
		asking = "get"
	}
	before := redis.Calls(asking)
	s := b.come(t, w, who, forever)
	waittest.Until(t, "two questions of Java", func() bool { return redis.Calls(asking) >= before+2 })
	b.java.awaitSleep(t, who)
	s.waits(t)
	return s
}

// tries has somebody try to have a thing, and reports whether it was free. On our side it is one of the other agent.
func (b *both) tries(t *testing.T, w thing, who string) bool {
	t.Helper()
	if strings.HasPrefix(who, "j") {
		s := &someone{thing: w, java: &object{b.java, who, w.kind, w.name}}
		switch w.kind {
		case "semaphore":
			s.permit = s.java.do(t, "tryAcquire", 1, 0)
		case "permits":
			s.permit = s.java.do(t, "tryAcquire", 1, 0, forever)
		default:
			s.permit = s.java.do(t, "tryLockOnce")
		}
		free := s.permit != "false" && s.permit != ""
		if free {
			s.leaves(t)
		}
		return free
	}
	var g channelapi.Grant
	waittest.Until(t, "the store to stop keeping "+w.name, func() bool {
		g = receive(t, request(t.Context(), b.others, w, channelapi.Try()))
		return !isKept(g.Err())
	})
	if errors.Is(g.Err(), lockagent.ErrHeld) {
		return false
	}
	must(t, g.Err())
	release(t, g)
	return true
}

// has makes somebody have a thing now.
func (b *both) has(t *testing.T, w thing, who string, lease time.Duration) *someone {
	t.Helper()
	s := b.come(t, w, who, lease)
	s.gets(t)
	return s
}

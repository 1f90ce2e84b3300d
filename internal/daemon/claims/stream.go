package claims

import (
	"context"
	"io"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/quota"
)

// Stream tells what becomes of a claim, and its end ends the claim. It has one reader.
//
// What the reader has not read is a few marks, however much has happened.
type Stream struct {
	claim  *claim
	secret string
	wake   chan struct{} // has a value when there may be something to read
	news   func()        // is called in place of that, if it is not nil

	// The mutex of the book guards these.
	queued, granted, renewed, uncertain, draining bool // to be told
	// Warned is to be told; warns says that the client asked for that.
	warned, warns bool
	holder        string
	left          time.Duration // of draining
	// The grant has been told, and the claim is to be detached.
	leaves bool
	ended  bool // the end has been told
	closed bool
}

func newStream(c *claim, secret string, news func()) *Stream {
	return &Stream{claim: c, secret: secret, wake: make(chan struct{}, 1), news: news}
}

// close ends the stream, and not its claim. It reports false if it was closed before. The mutex must be held.
func (s *Stream) close() bool {
	if s.closed {
		return false
	}
	s.closed = true
	c := s.claim
	c.stream = nil
	c.book.cfg.Quotas.Leave(c.Client.UID, quota.Streams)
	s.awake()
	return true
}

// Name is that of the lock.
func (s *Stream) Name() lockagent.Name { return s.claim.Name }

func (s *Stream) awake() {
	if s.news != nil {
		s.news()
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Close ends the stream, and with it the claim, unless that is over, is detached, has another stream, outlives its
// stream, or has workers that are left.
func (s *Stream) Close() {
	c := s.claim
	c.book.mu.Lock()
	ends := s.close() && !c.detached && !c.stay() && !c.passOn()
	c.book.mu.Unlock()
	if ends {
		c.giveUp(0)
	}
}

// Release ends the stream and its claim. lost is why the client counts the hold as lost, or 0. The channel delivers
// the outcome: that of [lockagent.Grant.Release], or how the claim had ended before.
func (s *Stream) Release(lost lockagent.LossReason) <-chan error {
	c := s.claim
	c.book.mu.Lock()
	s.close()
	before := c.cause
	if c.book.left {
		before = lockagent.ErrClosed // the next daemon releases it
	}
	c.book.mu.Unlock()
	if release, first := c.giveUp(lost); first && release != nil {
		return release
	}
	done := make(chan error, 1)
	done <- before
	return done
}

// Extend begins the fixed lease of the claim anew, and returns the deadline of its hold. The error is
// [lockagent.ErrClosed] if the claim was left to the next daemon meanwhile.
func (s *Stream) Extend(ctx context.Context, lease time.Duration) (Deadline, error) {
	s.claim.book.mu.Lock()
	g := s.claim.grant
	s.claim.book.mu.Unlock()
	return s.claim.book.extend(ctx, g, lease)
}

// Next waits for the next event. Whoever calls it has told the client the one before. After the last one the error is
// [io.EOF]. If ctx ends, it is the cause of that.
func (s *Stream) Next(ctx context.Context) (Event, error) {
	for {
		if e, err := s.Take(); e != nil || err != nil {
			return e, err
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Warn has the stream tell warnings from now on.
func (s *Stream) Warn() {
	c := s.claim
	c.book.mu.Lock()
	s.warns = true
	s.warned = c.warning != Warning{}
	g := c.grant
	s.awake()
	c.book.mu.Unlock()
	watch(g)
}

// watch has the agent warn of a hold. The mutex must not be held.
func watch(g lockagent.Grant) {
	g.Wanted()
	g.Uncertain()
}

// Take is Next for those who do not wait. It returns nil if there is nothing to tell.
func (s *Stream) Take() (Event, error) {
	e, err := s.take()
	if granted, ok := e.(Granted); ok && s.asks() {
		watch(granted.Grant)
	}
	return e, err
}

// asks reports whether the client wants warnings.
func (s *Stream) asks() bool {
	s.claim.book.mu.Lock()
	defer s.claim.book.mu.Unlock()
	return s.warns
}

func (s *Stream) take() (Event, error) {
	c := s.claim
	c.book.mu.Lock()
	defer c.book.mu.Unlock()
	if s.leaves {
		s.leaves = false
		s.leave()
	}
	switch {
	case s.closed || s.ended:
		return nil, io.EOF
	// The next daemon tells it: the agent has detached its holds, so here their deadlines mean nothing any more.
	case c.book.left:
		return nil, nil
	case s.granted && c.receive():
		if c.Detach { // the client may be told at any moment from now on, and may end then
			c.save(true, expires(c.TTL))
			_ = c.book.cfg.Journal.Flush() // if it fails, the claim waits for its client after a restart
		}
		s.granted, s.queued, s.renewed, s.leaves = false, false, false, c.Detach
		return Granted{
			Claim: c.id, Secret: s.secret, Kind: c.Kind.OrPlain(), Grant: c.grant, Deadline: deadline(c.grant),
			Waited: c.waited, Holds: c.holds,
		}, nil
	case c.state == Over:
		s.ended = true
		return Ended{Cause: c.cause}, nil
	// The agent has taken the grant back, and the end follows; or who asked for it learns just now what delivers it.
	case s.granted:
		return nil, nil
	case s.queued:
		s.queued = false
		return Queued{Claim: c.id, Secret: s.secret, Ahead: c.ahead, Holder: s.holder}, nil
	case s.draining:
		s.draining = false
		return Draining{Left: s.left}, nil
	case s.renewed:
		s.renewed = false
		at := deadline(c.grant)
		if c.grant.Cause() != nil { // its end follows
			return nil, nil
		}
		return Renewed{Deadline: at}, nil
	case s.uncertain: // since it was renewed
		s.uncertain = false
		return Uncertain{Err: c.doubt}, nil
	case s.warned:
		s.warned = false
		return c.warning, nil
	}
	return nil, nil
}

// leave detaches the claim, and closes the stream. The mutex must be held.
func (s *Stream) leave() {
	c := s.claim
	if c.state == Over || !s.close() {
		return
	}
	c.detached = true
	c.live(c.TTL) // if one before has passed just now, the claim is about to end
	c.book.changed(c.Name)
}

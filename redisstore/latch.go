package redisstore

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/script"
)

// latch returns the family of latches.
func (s *Store) latch() *family {
	return &family{
		acquire: s.awaitLatch,
		channel: script.LatchChannel,
		heard:   s.opened.heard,
		holds: &lockagent.OptionError{
			Option: "kind", Reason: "nobody holds a latch: it is not renewed, released, broken or inspected",
		},
	}
}

// Latch implements [lockagent.Counters]. In a Cluster the name must not have a '{'.
func (s *Store) Latch(_ context.Context, req lockagent.LatchRequest, done func(lockagent.LatchReply, error)) {
	_, err := s.check(req.Name, lockagent.Latch, req.Check())
	if err == nil {
		err = s.room.CheckLatch(req.Name)
	}
	if err != nil {
		done(lockagent.LatchReply{}, err)
		return
	}
	s.count(req, func(reply lockagent.LatchReply, _ bool, err error) { done(reply, err) })
}

func (s *Store) count(req lockagent.LatchRequest, done func(reply lockagent.LatchReply, opened bool, err error)) {
	var c script.Call
	s.room.Latch(&c, req, s.remembers())
	s.send(&c, s.slot(req.Name), func(text string, err error) {
		var reply lockagent.LatchReply
		opened := false
		if err == nil {
			reply, opened, err = script.ReadLatch(text)
		}
		done(reply, opened, completed(err, req.Name, lockagent.Latch))
	})
}

// awaitLatch is Acquire for a latch.
func (s *Store) awaitLatch(
	_ context.Context, _ *family, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error),
) {
	if err := s.room.CheckLatch(req.Name); err != nil {
		done(lockagent.AcquireReply{}, err)
		return
	}
	asked := time.Now()
	s.count(lockagent.LatchRequest{Name: req.Name}, func(latch lockagent.LatchReply, opened bool, err error) {
		switch {
		case err != nil:
			done(lockagent.AcquireReply{}, err)
		case latch.Count > 0:
			s.opened.forget(req.Name, asked)
			done(lockagent.AcquireReply{At: latch.At, Remaining: -1}, nil)
		case req.FoundClosed && !opened && !s.opened.since(req.Name, asked):
			time.AfterFunc(messageBehind, func() {
				switch {
				case s.opened.since(req.Name, asked):
					done(lockagent.AcquireReply{At: latch.At, Granted: true}, nil)
				case s.life.Err() != nil:
					done(lockagent.AcquireReply{}, lockagent.ErrClosed)
				default:
					done(lockagent.AcquireReply{}, lockagent.ErrLatchGone)
				}
			})
		default:
			done(lockagent.AcquireReply{At: latch.At, Granted: true}, nil)
		}
	})
}

// messageBehind is how much later than a reply a message may arrive that the server sent before, on another connection.
const messageBehind = 100 * time.Millisecond

// opened knows which latches were counted down to 0, by the messages that say so: Redisson leaves no
// note of that in the server. It has the latches of the last minute for which the agent waited, and at
// most as many older ones, or fewOpened. The zero value is empty.
type opened struct {
	mu    sync.Mutex // guards the others
	times map[lockagent.Name]opening
	most  int // how many there may be until old ones are removed
}

// opening is the last time that a message said that a latch was counted down to 0.
type opening struct {
	at    time.Time
	ended bool // the latch was set or deleted since then
}

const (
	fewOpened  = 1024
	openedKept = time.Minute
)

// heard takes note of a message on the channel of a latch.
func (o *opened) heard(name lockagent.Name, payload string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if payload != "0" { // it was set or deleted
		if last, ok := o.times[name]; ok {
			o.times[name] = opening{last.at, true}
		}
		return
	}
	if len(o.times) >= o.most {
		maps.DeleteFunc(o.times, func(_ lockagent.Name, x opening) bool { return time.Since(x.at) >= openedKept })
		o.most = max(fewOpened, 2*len(o.times))
	}
	if o.times == nil {
		o.times = make(map[lockagent.Name]opening)
	}
	o.times[name] = opening{at: time.Now()}
}

// forget forgets that a latch was counted down before an instant: it was found closed after that.
func (o *opened) forget(name lockagent.Name, before time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if x, ok := o.times[name]; ok && x.at.Before(before) {
		delete(o.times, name)
	}
}

// since reports whether a latch was open at some time after an instant: it was counted down to 0 since then, or within
// the last minute and neither set, nor deleted, nor found closed since.
func (o *opened) since(name lockagent.Name, asked time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	x, ok := o.times[name]
	return ok && (!x.at.Before(asked) || !x.ended && time.Since(x.at) < openedKept)
}

package redisstore

import (
	"context"
	"sync"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/script"
	"github.com/lockagent/lockagent/redisstore/internal/transport"
)

// fair returns the family of fair locks. It differs from that of plain locks in its scripts. And
// programs that do not pass a lock on tell a place by a channel of its own.
func (s *Store) fair() *family {
	room := s.room
	f := s.plain()
	f.many, f.beside, f.inspects = true, true, inspects(room, lockagent.FairLock)
	f.acquires.write, f.releases.write, f.breaks.write = room.FairAcquire, room.FairRelease, breaks(room.FairBreak)
	f.places = &places{store: s, heard: make(map[place]func())}
	f.acquire = func(
		ctx context.Context, f *family, req lockagent.AcquireRequest, done func(lockagent.AcquireReply, error),
	) {
		if req.Queue {
			done = f.places.asking(&req, done)
		}
		s.together(ctx, f, req, done)
	}
	return f
}

// places are the places in the queues of locks that may be told by channels of their own.
type places struct {
	store *Store

	mu    sync.Mutex // guards heard
	heard map[place]func()
}

type place struct {
	name   lockagent.Name
	tenure lockagent.Tenure
}

// asking wraps done of a call that asks for a place. If programs that do not pass the lock on may be
// ahead, the store subscribes to the channel of the place.
func (p *places) asking(
	req *lockagent.AcquireRequest, done func(lockagent.AcquireReply, error),
) func(lockagent.AcquireReply, error) {
	at := place{req.Name, req.Tenure}
	return func(reply lockagent.AcquireReply, err error) {
		switch {
		case err != nil:
		case reply.Queued && reply.Outsiders > 0:
			p.subscribe(at)
		case !reply.Queued:
			p.leave(at)
		}
		done(reply, err)
	}
}

// subscribe subscribes to the channel of a place. Whenever it stands, a message may have been missed.
func (p *places) subscribe(at place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.store.listener.Load()
	if l == nil || p.heard[at] != nil {
		return
	}
	look := lockagent.Message{
		Kind: lockagent.MessageStandby, Name: at.name, LockKind: lockagent.FairLock, Tenure: at.tenure,
	}
	channel := script.PlaceChannel(at.name, at.tenure)
	p.heard[at] = l.subscribe(p.store.topic(channel, at.name, false), transport.Listener{
		Message: func(string) { l.hear(look) },
		Stands:  func(bool) { l.hear(look) },
		Denied:  p.store.denied(channel, func() { l.hear(look) }),
	})
}

// leave ends the subscription to the channel of a place, if there is one.
func (p *places) leave(at place) {
	p.mu.Lock()
	cancel := p.heard[at]
	delete(p.heard, at)
	p.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

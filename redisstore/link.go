package redisstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockagent/lockagent"
)

const (
	// A link that lost its connection waits for about firstRetry before it makes
	// another, and then for twice as long each time, up to lastRetry. The waits are
	// random, so that the agents of a failed server do not come back all at once.
	firstRetry = 50 * time.Millisecond
	lastRetry  = time.Second
)

// link keeps the subscriptions of some topics on one connection. One goroutine
// runs it.
type link struct {
	s     *subscriptions
	at    string        // the node it leads to; empty if any will do
	kick  chan struct{} // capacity 1: there is work
	again chan struct{} // capacity 1: another connection is wanted

	// What follows is guarded by subscriptions.mu.
	passes  *topic          // for what is passed on to the store; nobody waits for it by itself
	refused bool            // it could not be subscribed, and is to be tried again later
	topics  map[*topic]bool // that it looks after
	work    []*topic        // those of them that may not be as they should
	moved   bool            // some of them may belong to another link
}

func newLink(s *subscriptions, at string) *link {
	return &link{
		s: s, at: at, kick: make(chan struct{}, 1), again: make(chan struct{}, 1),
		passes: &topic{channel: passChannel(s.id)}, topics: make(map[*topic]bool),
	}
}

// change is a topic that is about to be subscribed or unsubscribed.
type change struct {
	topic     *topic
	subscribe bool
}

// add notes that a topic may not be as it should. It expects subscriptions.mu to
// be held.
func (l *link) add(t *topic) {
	if !t.due {
		t.due = true
		l.work = append(l.work, t)
	}
	signal(l.kick)
}

// run keeps a connection for as long as there are topics.
func (l *link) run(ctx context.Context) {
	for pause := firstRetry; l.needed() && ctx.Err() == nil; pause = min(2*pause, lastRetry) {
		if settled := l.session(ctx); settled {
			pause = firstRetry
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause)):
		}
		l.relocate(ctx)
	}
}

// needed reports whether anybody waits for a topic of the link. If not, the link
// is given up.
func (l *link) needed() bool {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	for t := range l.topics {
		if len(t.wakes) > 0 {
			return true
		}
	}
	for t := range l.topics {
		l.forget(t)
	}
	delete(l.s.links, l.at)
	return false
}

// forget lets go of a topic that nobody waits for. It expects subscriptions.mu to
// be held.
func (l *link) forget(t *topic) {
	delete(l.topics, t)
	t.link = nil
	if l.s.topics[t.channel] == t {
		delete(l.s.topics, t.channel)
	}
}

// session lasts as long as one connection. It reports whether all went well for
// some time.
func (l *link) session(ctx context.Context) (settled bool) {
	defer l.disconnected()
	conn, err := l.s.wire.connect(l.at)
	if err != nil {
		return false
	}
	defer conn.Close()
	lost := conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage:      l.heard,
		OnSubscription: l.changed,
	})
	var later <-chan time.Time // not nil if something has to be tried again
	for {
		l.relocate(ctx)
		retry, err := l.settle(ctx, conn)
		if err != nil {
			return settled
		}
		settled = true
		if retry {
			later = time.After(lastRetry)
		}
		select {
		case <-ctx.Done():
			return true
		case <-lost: //nolint:errcheck // why does not matter: another connection is made
			return true
		case <-l.again:
			return true
		case <-l.kick:
		case <-later:
			later = nil
			l.reconsider()
		}
	}
}

// heard takes a message. What is passed on and cannot be understood is a pass that
// is lost, as any may be.
func (l *link) heard(m rueidis.PubSubMessage) {
	if m.Channel != l.passes.channel {
		l.s.wake(m.Channel)
		return
	}
	if name, pass, err := parsePass(m.Message); err == nil {
		l.s.pass(name, pass)
	}
}

// disconnected notes that nothing stands any more.
func (l *link) disconnected() {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.moved = true
	l.passes.stand, l.refused = absent, false
	for t := range l.topics {
		t.stand = absent
		l.add(t)
	}
}

// reconsider has those topics looked at again that could not be subscribed.
func (l *link) reconsider() {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.moved, l.refused = true, false
	for t := range l.topics {
		if t.stand == absent {
			l.add(t)
		}
	}
}

// changed is told by the connection of every change on the server. Most of them
// answer to our own commands. What is not asked for is that a node gives away a
// slot, and the topics with it. It might take them back, as a replica, but get no
// messages yet, so they are located anew before anything else.
func (l *link) changed(c rueidis.PubSubSubscription) {
	if c.Kind != "sunsubscribe" {
		return
	}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if t := l.s.topics[c.Channel]; t != nil && t.link == l && t.stand == stands {
		t.stand = absent
		l.moved = true
		l.add(t)
	}
}

// settle has the topics subscribed and unsubscribed as they should be. It reports
// whether some have to be tried again later, and fails if the connection does.
func (l *link) settle(ctx context.Context, conn rueidis.DedicatedClient) (retry bool, err error) {
	changes, joined := l.plan()
	for _, w := range joined {
		w.call(nil)
	}
	for len(changes) > 0 {
		n := min(len(changes), maxBatch)
		again, err := l.carryOut(ctx, conn, changes[:n])
		if err != nil {
			return false, err
		}
		retry = retry || again
		changes = changes[n:]
	}
	return retry, nil
}

// plan takes the work. It returns what has to change, and the wakes of those
// topics that stand and that somebody joined.
func (l *link) plan() (changes []change, joined []*wake) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if l.s.closed {
		return nil, nil
	}
	// This one comes first: who is queued when a topic stands can be passed the lock.
	if wanted := l.s.awaited > 0; l.s.passing && (wanted && l.passes.stand == absent && !l.refused || !wanted && l.passes.stand == stands) {
		l.passes.stand = uncertain
		changes = append(changes, change{topic: l.passes, subscribe: wanted})
	}
	for _, t := range l.work {
		if t.link != l {
			continue // it was forgotten, or given to another
		}
		wanted := len(t.wakes) > 0
		switch {
		case wanted && t.stand == absent, !wanted && t.stand == stands:
			t.stand = uncertain
			changes = append(changes, change{topic: t, subscribe: wanted})
		case wanted && t.fresh:
			joined = append(joined, t.wakes...)
		case !wanted:
			l.forget(t)
		}
		t.due, t.fresh = false, false
	}
	clear(l.work)
	l.work = l.work[:0]
	return changes, joined
}

// carryOut sends the commands for changes in one go. There is one for each, so
// that one topic that is refused does not take others with it.
func (l *link) carryOut(ctx context.Context, conn rueidis.DedicatedClient, changes []change) (retry bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.s.bound)
	defer cancel()
	commands := make(rueidis.Commands, len(changes))
	for i, c := range changes {
		if c.subscribe {
			commands[i] = l.s.wire.subscribe(conn.B(), c.topic.channel)
		} else {
			commands[i] = l.s.wire.unsubscribe(conn.B(), c.topic.channel)
		}
	}
	replies := conn.DoMulti(ctx, commands...)
	for _, reply := range replies {
		if err := reply.NonRedisError(); err != nil {
			return false, err
		}
	}
	wakes, retry := l.conclude(changes, replies)
	for _, w := range wakes {
		w.call(nil)
	}
	return retry, nil
}

// conclude notes what came of changes. It returns whom to wake, and whether some
// have to be tried again.
func (l *link) conclude(changes []change, replies []rueidis.RedisResult) (wakes []*wake, retry bool) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	for i, c := range changes {
		t, err := c.topic, replies[i].Error()
		switch {
		case err == nil && c.subscribe:
			t.stand = stands
			if !l.s.closed {
				wakes = append(wakes, t.wakes...)
			}
		case err == nil || errors.Is(kind(err.Error()), lockagent.ErrNotPermitted):
			// What a user may not subscribe to is tried again when somebody else
			// joins. Until then the waiters depend on the end of the lease.
			t.stand = absent
			if len(t.wakes) == 0 {
				l.forget(t)
			}
		default:
			t.stand = absent
			retry = true
			l.moved = true
			l.refused = l.refused || t == l.passes
			signal(l.kick)
		}
	}
	return wakes, retry
}

// relocate hands those topics over that belong to other links, after it has found
// out where.
func (l *link) relocate(ctx context.Context) {
	lost, ok := l.mayHaveMoved()
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, l.s.bound)
	defer cancel()
	l.s.wire.locate(ctx, lost)
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if l.s.closed {
		return
	}
	for t := range l.topics {
		if t.stand == absent && l.s.wire.node(t.slot) != l.at {
			delete(l.topics, t)
			t.link, t.due = nil, false
			l.s.assign(t)
		}
	}
}

// mayHaveMoved reports whether there is reason to look for another node, and for
// which lock.
func (l *link) mayHaveMoved() (lost lockagent.Name, ok bool) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if !l.moved {
		return "", false
	}
	l.moved = false
	for t := range l.topics {
		if t.stand == absent {
			return t.name, true
		}
	}
	return "", false
}

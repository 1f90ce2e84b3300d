package transport

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockagent/lockagent"
)

// link keeps the subscriptions of some topics on one connection. One goroutine
// runs it.
type link struct {
	s    *Subscriptions
	at   string        // see place
	kick chan struct{} // capacity 1: there is work

	// What follows is guarded by Subscriptions.mu.
	topics map[*topic]bool // that it looks after
	work   []*topic        // those of them that may not be as they should
	moved  moved           // whether some of them may belong to another link
}

// moved says who knows to which links the topics belong. What comes later asks more.
type moved uint8

const (
	nothing  moved = iota // the topics are where they belong
	learned               // the table knows: the node said it, and it was learned
	given                 // the node knows: it gave a slot away
	anything              // any node may know
)

func newLink(s *Subscriptions, at string) *link {
	return &link{s: s, at: at, kick: make(chan struct{}, 1), topics: make(map[*topic]bool)}
}

// change is a topic that is about to be subscribed or unsubscribed.
type change struct {
	topic     *topic
	subscribe bool
}

func (c change) command(b rueidis.Builder) rueidis.Completed {
	switch channel := c.topic.Channel; {
	case c.subscribe && c.topic.Sharded:
		return b.Ssubscribe().Channel(channel).Build()
	case c.subscribe:
		return b.Subscribe().Channel(channel).Build()
	case c.topic.Sharded:
		return b.Sunsubscribe().Channel(channel).Build()
	default:
		return b.Unsubscribe().Channel(channel).Build()
	}
}

// add notes that a topic may not be as it should. It expects Subscriptions.mu to
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
	var p pace
	for l.needed() && ctx.Err() == nil {
		if settled := l.session(ctx); settled {
			p.reset()
		}
		select {
		case <-ctx.Done():
		case <-time.After(p.next(lastRetry)):
		}
		l.relocate(ctx, nil)
	}
}

// needed reports whether anybody waits for a topic of the link. If not, the link
// is given up.
func (l *link) needed() bool {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	for t := range l.topics {
		if len(t.listeners) > 0 {
			return true
		}
	}
	for t := range l.topics {
		l.forget(t)
	}
	delete(l.s.links, l.at)
	return false
}

// forget lets go of a topic that nobody waits for. It expects Subscriptions.mu to
// be held.
func (l *link) forget(t *topic) {
	delete(l.topics, t)
	t.link = nil
	if l.s.topics[t.Channel] == t {
		delete(l.s.topics, t.Channel)
	}
}

// session lasts as long as one connection. It reports whether all went well for
// some time.
func (l *link) session(ctx context.Context) (settled bool) {
	defer l.disconnected()
	node := l.node()
	if node == nil {
		return false
	}
	conn, _ := node.client.Dedicate() // closed rather than given back: it has subscriptions
	defer conn.Close()
	lost := conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage:      func(m rueidis.PubSubMessage) { l.s.deliver(m.Channel, m.Message) },
		OnSubscription: l.changed,
	})
	var p pace
	var later <-chan time.Time // not nil if something has to be tried again
	for {
		l.relocate(ctx, node)
		retry, err := l.settle(ctx, node, conn)
		if err != nil {
			return settled
		}
		settled = true
		if retry && later == nil {
			later = time.After(p.next(lastRetry))
		}
		select {
		case <-ctx.Done():
			return true
		case <-lost: //nolint:errcheck // why does not matter: another connection is made
			return true
		case <-l.kick:
		case <-later:
			later = nil
			if !l.reconsider() {
				p.reset()
			}
		}
	}
}

// node is the server that the link leads to, or nil.
func (l *link) node() *Node {
	masters := l.s.servers.Masters()
	if l.at == anywhere && len(masters) > 0 {
		return masters[rand.N(len(masters))]
	}
	for _, n := range masters {
		if n.addr == l.at {
			return n
		}
	}
	return nil
}

// disconnected notes that nothing stands any more.
func (l *link) disconnected() {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.moved = anything
	for t := range l.topics {
		t.stand = absent
		l.add(t)
	}
}

// reconsider has those topics looked at again that could not be subscribed. It reports
// whether there are any.
func (l *link) reconsider() (any bool) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.moved = anything
	for t := range l.topics {
		if t.stand == absent {
			t.redirected = 0
			l.add(t)
			any = true
		}
	}
	return any
}

// changed is told by the connection of every change on the server. Most of them
// answer to our own commands. What is not asked for is that a node gives away a
// slot, and the topics with it, perhaps before the answer to our command was looked at.
// It might take them back, as a replica, but get no messages yet, so they are located
// anew before anything else.
func (l *link) changed(c rueidis.PubSubSubscription) {
	if c.Kind != "sunsubscribe" {
		return
	}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if t := l.s.topics[c.Channel]; t != nil && t.link == l && (t.stand == stands || t.stand == joining) {
		t.stand = absent
		l.moved = max(l.moved, given)
		l.add(t)
	}
}

// settle has the topics subscribed and unsubscribed as they should be. It reports
// whether some have to be tried again later, and fails if the connection does.
func (l *link) settle(ctx context.Context, node *Node, conn rueidis.DedicatedClient) (retry bool, err error) {
	changes, joined := l.plan()
	for len(changes) > 0 {
		n := min(len(changes), maxBatch)
		again, err := l.carryOut(ctx, node, conn, changes[:n])
		if err != nil {
			return false, err
		}
		retry = retry || again
		changes = changes[n:]
	}
	tell(joined) // an early topic that was asked for before stands by now
	return retry, nil
}

// plan takes the work. It returns what has to change, and the notices to those who
// joined a topic that stands.
func (l *link) plan() (changes []change, joined []notice) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if l.s.closed {
		return nil, nil
	}
	for _, t := range l.work {
		if t.link != l {
			continue // it was forgotten, or given to another
		}
		wanted := len(t.listeners) > 0
		switch {
		case wanted && t.stand == absent, !wanted && t.stand == stands:
			t.stand = leaving
			if wanted {
				t.stand = joining
			}
			changes = append(changes, change{topic: t, subscribe: wanted})
		case wanted && t.fresh:
			joined = append(joined, t.notices(false)...)
		case !wanted:
			l.forget(t)
		}
		t.due, t.fresh = false, false
	}
	clear(l.work)
	l.work = l.work[:0]
	slices.SortStableFunc(changes, func(a, b change) int { return a.turn() - b.turn() })
	return changes, joined
}

// turn orders changes: an early topic comes before others, and goes after them.
func (c change) turn() int {
	switch {
	case !c.topic.Early:
		return 1
	case c.subscribe:
		return 0
	}
	return 2
}

// notice is what a listener is told: that a subscription stands.
type notice struct {
	to    *listener
	again bool
}

// notices are those to all listeners of a topic, or only to those who were told nothing
// yet. It expects Subscriptions.mu to be held.
func (t *topic) notices(all bool) (notices []notice) {
	for _, l := range t.listeners {
		if all || !l.told {
			notices = append(notices, notice{l, l.told})
			l.told = true
		}
	}
	return notices
}

func tell(notices []notice) {
	for _, n := range notices {
		n.to.Stands(n.again)
	}
}

// carryOut sends the commands for changes in one go. Each topic has a command of its
// own: one that is refused does not take others with it.
func (l *link) carryOut(ctx context.Context, node *Node, conn rueidis.DedicatedClient, changes []change) (retry bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.s.servers.config.Call)
	defer cancel()
	commands := make(rueidis.Commands, len(changes))
	for i, c := range changes {
		commands[i] = c.command(conn.B())
	}
	replies := conn.DoMulti(ctx, commands...)
	for _, reply := range replies {
		if err := reply.NonRedisError(); err != nil {
			return false, err
		}
	}
	told, retry := l.conclude(node, changes, replies)
	tell(told)
	return retry, nil
}

// conclude notes what came of changes. It returns whom to tell, and whether some
// have to be tried again later.
func (l *link) conclude(node *Node, changes []change, replies []rueidis.RedisResult) (told []notice, retry bool) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	for i, c := range changes {
		t, err := c.topic, replies[i].Error()
		switch {
		case err == nil && c.subscribe && t.stand == absent:
			// The node gave it away again.
		case err == nil && c.subscribe:
			t.stand, t.redirected = stands, 0
			if !l.s.closed {
				told = append(told, t.notices(true)...)
			}
		case err == nil || errors.Is(Kind(err.Error()), lockagent.ErrNotPermitted):
			// What a user may not subscribe to is tried again when somebody else
			// joins. Until then the waiters depend on the end of the lease.
			t.stand = absent
			if len(t.listeners) == 0 {
				l.forget(t)
			}
		case l.follow(t, node, err.Error()):
			t.stand = absent
			l.moved = max(l.moved, learned)
			signal(l.kick)
		default:
			t.stand = absent
			l.moved, retry = anything, true
			signal(l.kick)
		}
	}
	return told, retry
}

// follow learns from a refusal which other node serves the slot of a topic. It reports false
// if the refusal does not say so. It also does if the nodes send the topic to and fro: they do
// not agree yet. It expects Subscriptions.mu to be held.
func (l *link) follow(t *topic, node *Node, refusal string) bool {
	if t.redirected++; t.redirected >= maxTries {
		return false
	}
	_, moved := l.s.servers.learn(node, refusal)
	return moved
}

// relocate finds out where the topics belong that do not stand. It hands over those that
// belong to other links. node is that of the connection; nil if there is none.
func (l *link) relocate(ctx context.Context, node *Node) {
	ctx, cancel := context.WithTimeout(ctx, l.s.servers.config.Call)
	defer cancel()
	// If a question fails, all stays as it was, and is tried again.
	switch moved := l.mayHaveMoved(); {
	case moved == nothing:
		return
	case moved == given && node != nil:
		_ = l.s.servers.refreshFrom(ctx, node)
	case moved != learned:
		_ = l.s.servers.Refresh(ctx)
	}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if l.s.closed {
		return
	}
	for t := range l.topics {
		if t.stand == absent && l.s.place(t.Topic) != l.at {
			delete(l.topics, t)
			t.link, t.due = nil, false
			l.s.assign(t)
		}
	}
}

// mayHaveMoved says who knows to which links the topics belong that do not stand.
func (l *link) mayHaveMoved() (m moved) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	m, l.moved = l.moved, nothing
	for t := range l.topics {
		if t.Sharded && t.stand == absent {
			return m
		}
	}
	return nothing
}

// TryTopic subscribes and unsubscribes once, to find out whether the user may.
func (s *Servers) TryTopic(ctx context.Context, t Topic) error {
	node := s.Master(t.Slot)
	if node == nil {
		return Error(errNoSlots)
	}
	conn, _ := node.client.Dedicate() // closed rather than given back: it may have subscriptions
	defer conn.Close()
	for _, subscribe := range []bool{true, false} {
		c := change{topic: &topic{Topic: t}, subscribe: subscribe}
		if err := conn.Do(ctx, c.command(conn.B())).Error(); err != nil {
			return Error(err)
		}
	}
	return nil
}

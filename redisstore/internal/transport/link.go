package transport

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// link keeps the subscriptions of its topics on one connection to one node. One goroutine
// runs it.
type link struct {
	s    *Subscriptions
	at   place         // of its topics
	kick chan struct{} // capacity 1: there is work

	// What follows is guarded by Subscriptions.mu.
	topics map[*topic]bool // that the link looks after
	work   []*topic        // those that may have to be subscribed or unsubscribed
	moved  moved           // whether absent topics may belong to another link
}

// moved says where to find out to which links the absent topics of a link belong. Later values
// ask more.
type moved uint8

const (
	nothing  moved = iota // nowhere: they belong to this link
	learned               // in the table: the node named another one in a refusal
	given                 // at the node of the link: it gave a slot away
	anything              // at any node
)

func newLink(s *Subscriptions, at place) *link {
	return &link{s: s, at: at, kick: make(chan struct{}, 1), topics: make(map[*topic]bool)}
}

// change is a topic that is about to be subscribed or unsubscribed.
type change struct {
	topic     *topic
	subscribe bool
}

func (c change) command() []string {
	command := "UNSUBSCRIBE"
	if c.subscribe {
		command = "SUBSCRIBE"
	}
	if c.topic.Sharded {
		command = "S" + command
	}
	return []string{command, c.topic.Channel}
}

// add puts a topic among the work of the link. It expects Subscriptions.mu to be held.
func (l *link) add(t *topic) {
	if !t.due {
		t.due = true
		l.work = append(l.work, t)
	}
	signal(l.kick)
}

// run keeps a connection for as long as a topic of the link has listeners.
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

// needed reports whether a topic of the link has listeners. If none has, needed gives up the
// link.
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

// forget drops a topic that has no listeners. It expects Subscriptions.mu to be held.
func (l *link) forget(t *topic) {
	delete(l.topics, t)
	t.link = nil
	if l.s.topics[t.channel()] == t {
		delete(l.s.topics, t.channel())
	}
}

// session makes a connection and looks after the topics until it is lost. It reports whether
// the first commands succeeded.
func (l *link) session(ctx context.Context) (settled bool) {
	defer l.disconnected()
	node := l.node()
	if node == nil {
		return false
	}
	conn, err := node.open(ctx, l.hear)
	if err != nil {
		return false
	}
	defer conn.close()
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
		case <-conn.lost:
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

// node is the server to connect to: the one at the place of the link, or any server if that is anywhere. It is nil
// if there is none.
func (l *link) node() *Node {
	masters := l.s.servers.Masters()
	if l.at.addr == anywhere && len(masters) > 0 {
		return masters[rand.N(len(masters))]
	}
	for _, n := range masters {
		if n.addr == l.at.addr {
			return n
		}
	}
	return nil
}

// disconnected notes that no topic stands any more.
func (l *link) disconnected() {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.moved = anything
	for t := range l.topics {
		t.stand = absent
		l.add(t)
	}
}

// reconsider tries the absent topics again. It reports whether there are any.
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

// hear takes what the server says unasked.
func (l *link) hear(kind string, words []string) {
	switch {
	case (kind == "message" || kind == "smessage") && len(words) == 2:
		l.s.deliver(channel{words[0], l.at.sharded}, words[1])
	case kind == "sunsubscribe" && len(words) > 0:
		l.dropped(words[0])
	}
}

// dropped is called when the server unsubscribes the connection from a channel unasked: a node that gives a slot
// away does so with the slot's channels. It may do so even before the link has seen the
// reply to the command that subscribed.
//
// Then relocate has to look for the new place before the link subscribes again. The old node
// may already be a replica of the new one. It would accept the subscription, but may not get the
// messages yet.
func (l *link) dropped(name string) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if t := l.s.topics[channel{name, true}]; t != nil && t.link == l && (t.stand == stands || t.stand == joining) {
		t.stand = absent
		l.moved = max(l.moved, given)
		l.add(t)
	}
}

// settle does the work: it subscribes and unsubscribes topics. It reports whether some have
// to be tried again later. It fails if the connection does.
func (l *link) settle(ctx context.Context, node *Node, conn *session) (retry bool, err error) {
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
	tell(joined) // last: whatever early topics were in the same work stand by now
	return retry, nil
}

// plan takes the work. It returns the topics that have to change, in the order of the commands.
// It also returns a notice for each listener that joined a topic that stands already.
func (l *link) plan() (changes []change, joined []notice) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if l.s.closed {
		return nil, nil
	}
	for _, t := range l.work {
		if t.link != l {
			continue // the topic was forgotten, or given to another link
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

// turn orders changes: early topics are subscribed first, and unsubscribed last.
func (c change) turn() int {
	switch {
	case !c.topic.Early:
		return 1
	case c.subscribe:
		return 0
	}
	return 2
}

// notice tells a listener that its subscription stands, for the first time or again, or that it was denied.
type notice struct {
	to     *listener
	again  bool
	denied error
}

// notices returns the notices to all listeners of a topic, or only to the listeners that were
// told nothing yet. It expects Subscriptions.mu to be held.
func (t *topic) notices(all bool) (notices []notice) {
	for _, l := range t.listeners {
		if all || !l.told {
			notices = append(notices, notice{to: l, again: l.told})
			l.told = true
		}
	}
	return notices
}

// denials returns the notices that the user may not subscribe. It expects Subscriptions.mu to be held.
func (t *topic) denials(err error) (notices []notice) {
	for _, l := range t.listeners {
		if l.Denied != nil {
			notices = append(notices, notice{to: l, denied: err})
		}
	}
	return notices
}

func tell(notices []notice) {
	for _, n := range notices {
		if n.denied != nil {
			n.to.Denied(n.denied)
		} else {
			n.to.Stands(n.again)
		}
	}
}

// carryOut sends the commands for changes in one go. Each topic has a command of its own, so
// a refusal concerns one topic alone.
func (l *link) carryOut(ctx context.Context, node *Node, conn *session, changes []change) (retry bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.s.servers.config.Call)
	defer cancel()
	commands := make([][]string, len(changes))
	for i, c := range changes {
		commands[i] = c.command()
	}
	replies := conn.do(ctx, commands...)
	for _, reply := range replies {
		if reply.kind != '>' && reply.kind != '-' {
			return false, reply.strange()
		}
	}
	told, retry := l.conclude(node, changes, replies)
	tell(told)
	return retry, nil
}

// conclude notes the replies to changes. It returns the notices, and whether some changes have
// to be tried again later.
func (l *link) conclude(node *Node, changes []change, replies []Reply) (told []notice, retry bool) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	for i, c := range changes {
		t, err := c.topic, replies[i].Err()
		switch {
		case err == nil && c.subscribe && t.stand == absent:
			// The node gave the slot away right after its reply, see dropped.
		case err == nil && c.subscribe:
			t.stand, t.redirected = stands, 0
			if !l.s.closed {
				told = append(told, t.notices(true)...)
			}
		case err == nil || errors.Is(Kind(err.Error()), lockagent.ErrNotPermitted):
			// If the user may not subscribe, the link tries again later: the rules may change.
			t.stand = absent
			if err != nil && c.subscribe && !l.s.closed {
				told = append(told, t.denials(Error(err))...)
			}
			if len(t.listeners) == 0 {
				l.forget(t)
			} else {
				retry = retry || err != nil
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
// if the refusal names none. It also reports false after maxTries refusals: the nodes send the
// topic to and fro, because they do not agree yet. It expects Subscriptions.mu to be held.
func (l *link) follow(t *topic, node *Node, refusal string) bool {
	if t.redirected++; t.redirected >= maxTries {
		return false
	}
	_, moved := l.s.servers.learn(node, refusal)
	return moved
}

// relocate finds out where the absent topics belong, and hands those over that belong to other
// links. node is the node of the connection, or nil if there is none.
func (l *link) relocate(ctx context.Context, node *Node) {
	ctx, cancel := context.WithTimeout(ctx, l.s.servers.config.Call)
	defer cancel()
	// If a question fails, the topics stay here. The link tries them again, fails, and asks again.
	switch moved := l.mayHaveMoved(); {
	case moved == nothing:
		return
	case moved == given && node != nil:
		_ = l.s.servers.RefreshFrom(ctx, node)
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

// mayHaveMoved takes what is noted in moved. It returns nothing if the link has no topic that is absent, or its topics
// may be anywhere.
func (l *link) mayHaveMoved() (m moved) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	m, l.moved = l.moved, nothing
	if m == nothing || l.at.addr == anywhere { // as a rule; there may be very many topics
		return nothing
	}
	for t := range l.topics {
		if t.stand == absent {
			return m
		}
	}
	return nothing
}

// TryTopic subscribes and unsubscribes once, to find out whether the user has the right to.
func (s *Servers) TryTopic(ctx context.Context, t Topic) error {
	node := s.Master(t.Slot)
	if node == nil {
		return Error(errNoSlots)
	}
	conn, err := node.open(ctx, func(string, []string) {})
	if err != nil {
		return Error(err)
	}
	defer conn.close()
	for _, subscribe := range []bool{true, false} {
		c := change{topic: &topic{Topic: t}, subscribe: subscribe}
		if err := conn.do(ctx, c.command())[0].Err(); err != nil {
			return Error(err)
		}
	}
	return nil
}

package transport

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/errand"
)

const (
	// maxBatch is how much travels together. More would make the first of it wait for the
	// replies to the last without making the rest any cheaper.
	maxBatch = 256

	// quick is how long an exchange takes at most if the next one is left to a caller.
	quick = 5 * time.Millisecond

	// maxTries is how often a call is sent, at most, while servers pass it on.
	maxTries = 6
)

// lane carries calls to one server.
//
// A lane has two tracks, and each makes one exchange at a time. Whoever makes an exchange is the
// leader of its track. The leader frees the track before anybody is answered, and has
// a follower make the next exchange if something waits. So no call ever waits for code that is
// not the transport's. Leaders are goroutines of the lane, of which one rests while there is
// nothing to do, or callers on an errand.
//
// The second track is used when as many calls wait as are under way on the first. Then the server
// works on one batch while its clients work on the other. Calls that leave as soon as a track is free
// would travel in ever smaller batches, and cost more than the overlap gains.
type lane[I Item] struct {
	lanes *Lanes[I]
	node  *Node
	turn  chan *track[I] // capacity 1: the goroutine that rests is to lead there; closed with the lane
	help  func()         // what a caller does on an errand, see helps; bound once

	mu       sync.Mutex // guards what follows
	queue    []entry[I]
	spare    []*batch[I] // for the batches to come
	tracks   [tracks]track[I]
	resting  bool // a goroutine waits for its turn
	inviting bool // a caller may lead: the last exchange was answered, and quickly
	closed   bool
}

// tracks is how many exchanges a lane makes at the same time, at most.
const tracks = 2

// track is a way to the server for one exchange at a time.
type track[I Item] struct {
	client rueidis.Client // has a connection of its own; for the leader
	pack   Packer[I]      // for the leader
	load   int            // how much is under way; guarded by the lane's mu; 0 if there is no leader
}

const (
	// someLoad is that of a track whose leader has not taken anything yet: more than can wait.
	someLoad = math.MaxInt

	// worthwhile is how much must wait at least for another exchange while one is under way.
	worthwhile = 8
)

// entry is what waits in a lane: an item, or a call that was made of some before.
type entry[I Item] struct {
	item I
	call *Call // in place of the item, if it is not nil
	slot uint16
	made time.Time
}

func (e *entry[I]) refuse(err error) {
	if e.call != nil {
		e.call.Done(rueidis.RedisMessage{}, err)
	} else {
		e.item.Refuse(err)
	}
}

// batch is what travels together.
type batch[I Item] struct {
	stale    []entry[I] // does not travel: it waited for too long
	items    []I
	calls    []*Call
	commands rueidis.Commands
	single   [1]rueidis.RedisResult
	replies  []rueidis.RedisResult // one to each command
	began    time.Time
	bound    timed // of the exchange
}

func newLane[I Item](l *Lanes[I], n *Node) *lane[I] {
	lane := &lane[I]{lanes: l, node: n, turn: make(chan *track[I], 1)}
	lane.help = lane.helps
	for i := range lane.tracks {
		lane.tracks[i].client, lane.tracks[i].pack = n.direct[i], l.newPacker()
	}
	return lane
}

// put adds to the queue. It reports false if the lane is closed.
func (l *lane[I]) put(ctx context.Context, e entry[I]) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.queue = append(l.queue, e)
	switch {
	case l.load() == 0 && l.inviting && errand.Leave(ctx, l.help):
		l.tracks[0].load = someLoad
	default:
		l.dispatch()
	}
	return true
}

// load is how much is under way on the track that has most. It expects mu to be held.
func (l *lane[I]) load() (most int) {
	for i := range l.tracks {
		most = max(most, l.tracks[i].load)
	}
	return most
}

// dispatch has what waits travel on a free track, if it is time. It expects mu to be held.
func (l *lane[I]) dispatch() {
	waiting, load := len(l.queue), l.load()
	if waiting == 0 || load > 0 && waiting < max(load, worthwhile) {
		return
	}
	for i := range l.tracks {
		if t := &l.tracks[i]; t.load == 0 {
			l.appoint(t)
			return
		}
	}
}

// appoint makes a goroutine of the lane the leader of a track. It expects mu to be held.
func (l *lane[I]) appoint(t *track[I]) {
	t.load = someLoad
	if l.resting {
		l.resting = false
		l.turn <- t
	} else {
		l.lanes.servers.runs.Go(func() { l.run(t) })
	}
}

// close returns what waits. What is under way goes on.
func (l *lane[I]) close() (waiting []entry[I]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting = l.queue
	l.queue, l.closed = nil, true
	close(l.turn)
	return waiting
}

// run leads, and then rests until it is to lead again, unless another goroutine rests.
func (l *lane[I]) run(t *track[I]) {
	for more := true; more; {
		l.lead(t, maxBatch, true)
		l.mu.Lock()
		superfluous := l.resting || l.closed
		l.resting = true
		l.mu.Unlock()
		if superfluous {
			return
		}
		t, more = <-l.turn
	}
}

// helps leads in place of a goroutine of the lane. A caller takes only what it came with,
// which is first, because the queue was empty: others are none of its business. It makes no
// connection, because that may take long.
func (l *lane[I]) helps() { l.lead(&l.tracks[0], 1, false) }

// lead makes one exchange with what waits, frees the track, and answers.
func (l *lane[I]) lead(t *track[I], most int, mayDial bool) {
	b := l.take(t, most)
	sent := l.exchange(t, b, mayDial)
	l.free(t, b, sent)
	if !sent {
		return
	}
	defer l.giveBack(b) // also if code that is called with an answer ends the goroutine
	each(len(b.stale)+len(b.calls), func(i int) {
		if i < len(b.stale) {
			b.stale[i].refuse(fmt.Errorf("%w: waited for %v behind calls without an answer", lockagent.ErrStoreUnavailable, l.lanes.servers.config.Call/2))
		} else {
			i -= len(b.stale)
			l.conclude(b.calls[i], b.replies[i], b.began)
		}
	})
}

// take makes a batch of what waits.
func (l *lane[I]) take(t *track[I], most int) *batch[I] {
	l.mu.Lock()
	var b *batch[I]
	if last := len(l.spare) - 1; last >= 0 {
		b, l.spare = l.spare[last], l.spare[:last]
	} else {
		b = new(batch[I])
	}
	b.began = time.Now()
	oldest := b.began.Add(-l.lanes.servers.config.Call / 2) // the exchange has the other half
	made := b.began
	n := min(len(l.queue), most)
	t.load = max(n, 1)
	for _, e := range l.queue[:n] {
		switch {
		case e.made.Before(oldest):
			b.stale = append(b.stale, e)
			continue
		case e.call != nil:
			b.calls = append(b.calls, e.call)
		default:
			b.items = append(b.items, e.item)
		}
		if e.made.Before(made) {
			made = e.made
		}
	}
	rest := copy(l.queue, l.queue[n:])
	clear(l.queue[rest:])
	l.queue = l.queue[:rest]
	l.mu.Unlock()
	if len(b.items) > 0 {
		for _, c := range t.pack(b.items) {
			c.made, c.asking, c.tries = made, false, 0
			b.calls = append(b.calls, c)
		}
	}
	return b
}

// free lets somebody else lead. What was not sent waits once more, before all others; if
// the lane was closed meanwhile, elsewhere.
func (l *lane[I]) free(t *track[I], b *batch[I], sent bool) {
	var again []entry[I]
	if !sent {
		again = append(again, b.stale...)
		for _, c := range b.calls {
			again = append(again, entryOf[I](c))
		}
	}
	l.mu.Lock()
	t.load = 0
	l.inviting = sent && len(b.replies) > 0 && b.replies[len(b.replies)-1].NonRedisError() == nil && time.Since(b.began) < l.lanes.quick
	if !l.closed {
		if !sent {
			l.queue, again = append(again, l.queue...), nil
		}
		l.dispatch()
	}
	l.mu.Unlock()
	if len(again) > 0 {
		l.lanes.addAll(again)
	}
}

// giveBack keeps a batch for later. It lets go of what was answered: much memory may hang
// on that.
func (l *lane[I]) giveBack(b *batch[I]) {
	clear(b.stale)
	clear(b.items)
	clear(b.calls)
	clear(b.commands)
	b.single = [1]rueidis.RedisResult{}
	*b = batch[I]{stale: b.stale[:0], items: b.items[:0], calls: b.calls[:0], commands: b.commands[:0]}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.spare) < tracks+1 { // one is answered while the others are under way
		l.spare = append(l.spare, b)
	}
}

// exchange sends the calls of a batch in one go. It reports false if it may not dial and
// has to. Then nothing was sent.
func (l *lane[I]) exchange(t *track[I], b *batch[I], mayDial bool) (sent bool) {
	if len(b.calls) == 0 {
		return true
	}
	config := &l.lanes.servers.config
	b.bound = timed{l.node.life, b.began.Add(config.Call / 2)}
	ctx := &b.bound
	for _, c := range b.calls {
		if c.preceded() {
			b.commands = append(b.commands, c.before(t.client.B()))
		}
		b.commands = append(b.commands, c.byDigest(t.client.B()))
	}
	b.do(ctx, t.client)
	if errors.Is(b.replies[0].Error(), errUnsent) {
		if !mayDial {
			return false
		}
		b.do(ctx, t.client) // with another connection
	}
	b.dropBefore()
	b.repeatBySource(ctx, t.client)
	return true
}

// do makes the commands. They may not be used any more unless they failed.
func (b *batch[I]) do(ctx context.Context, client rueidis.Client) {
	if len(b.commands) > 1 {
		b.replies = client.DoMulti(ctx, b.commands...)
		return
	}
	b.single[0] = client.Do(ctx, b.commands[0])
	b.replies = b.single[:]
}

// dropBefore leaves one reply to each call.
func (b *batch[I]) dropBefore() {
	if len(b.commands) == len(b.calls) {
		return
	}
	from := 0
	for to, c := range b.calls {
		if c.preceded() {
			from++
		}
		b.replies[to] = b.replies[from]
		from++
	}
	b.replies = b.replies[:len(b.calls)]
}

// repeatBySource makes those calls once more whose script the server did not have, and
// puts the new replies in place of the old. If one fails, so do the rest.
func (b *batch[I]) repeatBySource(ctx context.Context, client rueidis.Client) {
	for i, c := range b.calls {
		if !missing(b.replies[i]) {
			continue
		}
		if c.asking {
			replies := client.DoMulti(ctx, client.B().Asking().Build(), c.bySource(client.B()))
			b.replies[i] = replies[1]
		} else {
			b.replies[i] = client.Do(ctx, c.bySource(client.B()))
		}
		if b.replies[i].NonRedisError() != nil {
			for rest := i + 1; rest < len(b.replies); rest++ {
				b.replies[rest] = b.replies[i]
			}
			return
		}
	}
}

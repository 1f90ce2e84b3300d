package transport

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/inperson"
)

const (
	// maxBatch is how many entries travel together at most. In a larger batch the first entry
	// would wait longer for the last one, and the others would cost no less.
	maxBatch = 256

	// maxTries is how often a call is sent at most, while servers refuse it or send it elsewhere.
	maxTries = 6
)

// lane carries calls to one server. What waits for the server is an entry in its queue.
//
// An exchange sends a batch of entries and reads the replies. A lane has two tracks, and each
// makes one exchange at a time. The goroutine that makes an exchange is the leader of the track.
// It frees the track before it answers anybody, and appoints another leader if entries wait. So no
// exchange waits for the store's code, which runs in the answers.
//
// A leader is a goroutine of the lane. One of them rests while there is nothing to do. It leads at the
// next turn.
//
// The second track makes an exchange when as many entries wait as are under way on the first.
// Then the server works on one batch while the program works on the other. It would not pay to
// use a free track at once: the batches would become ever smaller. Sixteen entries are cheaper as
// two batches of eight than as sixteen of one.
//
// A third track is for a lone caller: one who makes the call in person, while nothing waits and no
// exchange is under way. That caller leads, in its own goroutine, and takes its own entry alone. What comes
// meanwhile finds both other tracks free. So nobody waits for the caller, who may hang, or leave.
type lane[I Item] struct {
	lanes *Lanes[I]
	node  *Node
	turn  chan *track[I] // capacity 1: the track that the resting goroutine is to lead; closed with the lane

	mu      sync.Mutex // guards what follows
	queue   []entry[I]
	spare   []*batch[I] // to be used again
	tracks  [tracks]track[I]
	lone    track[I] // of a lone caller, or busy while warm is at work
	cold    bool     // a lone caller has left, so that track may have no connection
	resting bool     // a goroutine waits for its turn
	closed  bool
}

// tracks is how many exchanges the goroutines of a lane make at the same time, at most.
const tracks = 2

// track is a connection to the server, for one exchange at a time.
type track[I Item] struct {
	exchange exchange  // on one connection; only the leader uses it
	pack     Packer[I] // only the leader uses it
	load     int       // how many entries are under way; 0 without a leader; guarded by the lane's mu
}

const (
	// someLoad is the load of a track whose leader has not taken its batch yet. It is more than
	// can wait, so the other track stays free until then.
	someLoad = math.MaxInt

	// worthwhile is how many entries must wait at least before the second track is used.
	worthwhile = 8
)

// entry waits in a lane. It is an item, or a call that is ready to be sent.
type entry[I Item] struct {
	item I     // if call is nil
	call *Call // may be nil
	slot uint16
	made time.Time // when it was added
}

func (e *entry[I]) refuse(err error) {
	if e.call != nil {
		e.call.Done(Reply{}, err)
	} else {
		e.item.Refuse(err)
	}
}

// batch is the entries of one exchange.
type batch[I Item] struct {
	stale    []entry[I] // are refused and not sent: they waited for too long
	items    []I
	calls    []*Call // of the entries, then those that the packer made of items
	commands rueidis.Commands
	replies  []Reply   // one to each command; after read, one to each call
	made     time.Time // when the oldest of the entries was added
	began    time.Time

	replicated bool // a WAIT is the last command
}

func newLane[I Item](l *Lanes[I], n *Node) *lane[I] {
	lane := &lane[I]{lanes: l, node: n, turn: make(chan *track[I], 1)}
	for i := range lane.tracks {
		lane.tracks[i].exchange, lane.tracks[i].pack = n.direct[i], l.newPacker()
	}
	lane.lone.exchange, lane.lone.pack = n.lone, l.newPacker()
	return lane
}

// put adds an entry to the queue. Or it makes the exchange, if its caller is alone here. It reports false if
// the lane is closed.
func (l *lane[I]) put(ctx context.Context, e entry[I]) bool {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return false
	}
	l.queue = append(l.queue, e)
	lone := len(l.queue) == 1 && l.load() == 0 && l.lone.load == 0 && inperson.Is(ctx) && l.node.life.Err() == nil
	if lone && l.cold {
		lone = false
		l.makeWarm()
	}
	var b *batch[I]
	if lone {
		b = l.take(&l.lone)
	} else {
		l.dispatch()
	}
	l.mu.Unlock()
	if lone {
		l.make(ctx, &l.lone, b)
	}
	return true
}

// makeWarm makes a connection for lone callers. Their contexts may be too short for that: then each would give up the
// connection that it began to make. It expects mu to be held.
func (l *lane[I]) makeWarm() {
	if !l.closed {
		l.lone.load = 1
		l.lanes.servers.runs.Go(l.warm)
	}
}

func (l *lane[I]) warm() {
	var reply [1]Reply
	commands := rueidis.Commands{l.node.builder.Ping().Build()}
	l.lone.exchange(l.node.life, time.Now().Add(l.lanes.servers.config.Call/2), commands, reply[:])
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cold, l.lone.load = reply[0].err != nil, 0
}

// load is the greatest load of a track of the lane's goroutines: 0 if the lane is idle. It expects mu to be held.
func (l *lane[I]) load() (most int) {
	for i := range l.tracks {
		most = max(most, l.tracks[i].load)
	}
	return most
}

// dispatch appoints a leader for the entries that wait, if a track is free and it is worthwhile. When
// the node was given up, they wait for close, which comes at once. It expects mu to be held.
func (l *lane[I]) dispatch() {
	waiting, load := len(l.queue), l.load()
	if waiting == 0 || load > 0 && waiting < max(load, worthwhile) || l.node.life.Err() != nil {
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

// close closes the lane, and returns the entries that wait. Exchanges under way go on.
func (l *lane[I]) close() (waiting []entry[I]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting = l.queue
	l.queue, l.closed = nil, true
	close(l.turn)
	return waiting
}

// run is a goroutine of the lane. It leads, and then rests until its next turn. It ends if
// another goroutine rests already.
func (l *lane[I]) run(t *track[I]) {
	for more := true; more; {
		l.mu.Lock()
		b := l.take(t)
		l.mu.Unlock()
		l.make(l.node.life, t, b)
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

// make makes the exchange of a batch, frees the track, and answers. ctx is that of a lone caller, or does not matter.
func (l *lane[I]) make(ctx context.Context, t *track[I], b *batch[I]) {
	if len(b.items) > 0 {
		for _, c := range t.pack(b.items) {
			c.made, c.asking, c.tries = b.made, false, 0
			b.calls = append(b.calls, c)
		}
	}
	sent := l.exchange(ctx, t, b)
	l.free(t, b, sent)
	if !sent {
		return
	}
	defer l.giveBack(b) // also if an answer ends the goroutine
	Each(len(b.stale)+len(b.calls), func(i int) {
		if i < len(b.stale) {
			b.stale[i].refuse(fmt.Errorf("%w: waited for %v behind calls without an answer",
				lockagent.ErrStoreUnavailable, l.lanes.servers.config.Call/2))
		} else {
			i -= len(b.stale)
			l.conclude(b.calls[i], b.replies[i], b.began)
		}
	})
}

// take makes a batch of the first entries in the queue. It expects mu to be held.
func (l *lane[I]) take(t *track[I]) *batch[I] {
	var b *batch[I]
	if last := len(l.spare) - 1; last >= 0 {
		b, l.spare = l.spare[last], l.spare[:last]
	} else {
		b = new(batch[I])
	}
	b.began = time.Now()
	oldest := b.began.Add(-l.lanes.servers.config.Call / 2) // the exchange has the other half
	b.made = b.began
	n := min(len(l.queue), maxBatch)
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
		if e.made.Before(b.made) {
			b.made = e.made
		}
	}
	rest := copy(l.queue, l.queue[n:])
	clear(l.queue[rest:])
	l.queue = l.queue[:rest]
	return b
}

// free frees the track, and appoints the next leader if entries wait. A batch that was not sent goes
// back to the front of the queue. If the lane was closed meanwhile, it goes to the lane of the
// node's successor.
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
	if t == &l.lone && slices.ContainsFunc(b.replies, func(r Reply) bool { return errors.Is(r.err, errLeft) }) {
		l.cold = true
		l.makeWarm()
	}
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

// giveBack keeps a batch for later use. It drops all references to what was answered, so that
// their memory can be freed.
func (l *lane[I]) giveBack(b *batch[I]) {
	clear(b.stale)
	clear(b.items)
	clear(b.calls)
	clear(b.commands)
	clear(b.replies)
	*b = batch[I]{
		stale: b.stale[:0], items: b.items[:0], calls: b.calls[:0], commands: b.commands[:0], replies: b.replies[:0],
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.spare) < tracks+2 { // one is answered while the others are under way, and a lone caller's
		l.spare = append(l.spare, b)
	}
}

// exchange sends the calls of a batch in one go, and reads the replies. If the node was given up, it reports
// false: nothing was sent.
func (l *lane[I]) exchange(ctx context.Context, t *track[I], b *batch[I]) (sent bool) {
	if len(b.calls) == 0 {
		return true
	}
	if l.node.life.Err() != nil {
		return false
	}
	config := &l.lanes.servers.config
	exchange := func(commands rueidis.Commands, replies []Reply) {
		t.exchange(ctx, b.began.Add(config.Call/2), commands, replies)
	}
	b.write(config, l.node.builder, (*Call).byDigest)
	exchange(b.commands, b.replies)
	b.read()
	b.repeatBySource(config, l.node.builder, exchange)
	return true
}

// write makes the commands of the calls, and room for the replies.
func (b *batch[I]) write(
	config *Config, builder rueidis.Builder, run func(*Call, rueidis.Builder) rueidis.Completed,
) {
	for _, c := range b.calls {
		if c.asking {
			b.commands = append(b.commands, builder.Asking().Build())
		}
		b.commands = append(b.commands, run(c, builder))
		b.replicated = b.replicated || c.Replicated
	}
	if b.replicated {
		b.commands = append(b.commands, config.wait(builder))
	}
	b.replies = append(b.replies[:0], make([]Reply, len(b.commands))...)
}

// read leaves one reply to each call.
func (b *batch[I]) read() {
	if b.replicated {
		b.readWait()
	}
	if len(b.replies) == len(b.calls) {
		return
	}
	from := 0
	for to, c := range b.calls {
		if c.asking {
			from++
		}
		b.replies[to] = b.replies[from]
		from++
	}
	b.replies = b.replies[:len(b.calls)]
}

// repeatBySource sends the source of each script that the server did not have, and replaces the
// reply to its call. If the connection fails meanwhile, these calls fail with it, and the others keep what
// they were answered.
func (b *batch[I]) repeatBySource(config *Config, builder rueidis.Builder, exchange func(rueidis.Commands, []Reply)) {
	var unknown []*Call
	for i, c := range b.calls {
		if missing(b.replies[i]) {
			unknown = append(unknown, c)
		}
	}
	if unknown == nil {
		return
	}
	again := &batch[I]{calls: unknown}
	again.write(config, builder, (*Call).bySource)
	exchange(again.commands, again.replies)
	again.read()
	for i, next := 0, 0; i < len(b.replies); i++ {
		if missing(b.replies[i]) {
			b.replies[i] = again.replies[next]
			next++
		}
	}
}

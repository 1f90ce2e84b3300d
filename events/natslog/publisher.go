package natslog

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/internal/queue"
)

// Publisher takes the events of one agent and publishes them. It must be made by
// [NewPublisher] and closed. All methods are safe for concurrent use.
type Publisher struct {
	cfg   Config
	began time.Time
	stop  context.CancelFunc
	done  chan struct{} // closed when the sender has ended
	wake  chan struct{} // capacity 1: there may be something to send

	_ [64]byte // every call of Record writes what follows: that is in another cache line than what every call only reads

	mu       sync.Mutex // guards what follows
	queue    queue.Queue
	pulse    queue.Pulse
	leaving  leaving
	outbox   outbox
	stats    Stats // without what can be computed
	resting  bool  // the sender waits for wake
	closed   bool
	failed   bool // it has stopped by itself: stalled.err says why
	flushes  []flush
	stalled  stall
	overload overload

	logging sync.Mutex // held while drops are logged; taken before mu

	between func() // what a test does between two portions of what leaves the queue
}

// leaving says what has left the queue and is not in the outbox yet.
type leaving struct {
	some bool
	from uint64 // the least order
}

// flush is a caller that waits until all records before an order are settled, or really all.
type flush struct {
	began uint64 // the order at the call
	order uint64 // greater if what was recorded before the call moved behind it
	all   bool
	done  chan struct{}
}

var _ lockagent.Recorder = (*Publisher)(nil)

// NewPublisher starts a publisher. NATS need not be there: events wait in the
// queue until it is.
//
// It returns a [*lockagent.OptionError] or [ErrBadURL] for a wrong cfg.
func NewPublisher(cfg Config) (*Publisher, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	p := unstarted(cfg)
	p.stop = stop
	go newSender(p).run(ctx)
	return p, nil
}

// unstarted returns a publisher without a sender.
func unstarted(cfg Config) *Publisher {
	return &Publisher{
		cfg:   cfg,
		began: time.Now(),
		done:  make(chan struct{}),
		wake:  make(chan struct{}, 1),
		queue: queue.New(cfg.QueueSize, cfg.Linger),
		pulse: queue.Pulse{Every: cfg.Heartbeat},

		between: func() {},
	}
}

// Record queues e to be published. It never blocks on the network and never fails. If the queue
// is full, the record of the least value is dropped and counted. So is an event that comes
// after Close, and one whose Kind no agent records. The Agent of e is taken to be that of the
// publisher. If the texts of e have more than 1 KiB together, only 1 KiB of each is kept.
func (p *Publisher) Record(_ context.Context, e lockagent.Event) {
	now := p.since(e.Time)
	queue.Bound(&e)
	p.lock()
	defer p.mu.Unlock()
	if p.pulse.See(now, &e) {
		p.wakeUp()
	}
	if e.Kind == lockagent.EventAlive || e.Kind == lockagent.EventRenewed && !p.cfg.Renewals {
		return // the pulse tells of it
	}
	p.stats.Recorded++
	if p.closed {
		p.queue.Lose(e.Kind, 1)
		return
	}
	idle, hurry, lost := p.queue.Size == 0, p.queue.Hurry, p.queue.Lost.Records
	if recorded(e.Kind) {
		if older, moved := p.queue.Add(now, &e); moved {
			p.followed(older)
		}
	} else {
		p.queue.Drop(e.Kind, 1)
	}
	if lost != p.queue.Lost.Records {
		p.overloaded(now)
	}
	if idle || hurry != p.queue.Hurry || lost != p.queue.Lost.Records {
		p.wakeUp()
	}
}

// since returns the time from the start of the publisher to t, which is taken for now. To read
// the clock once more costs as much as all the rest. A t that is no reading of the monotonic
// clock does not count.
func (p *Publisher) since(t time.Time) time.Duration {
	if t == t.Round(0) { // Round strips the reading
		t = time.Now()
	}
	return t.Sub(p.began)
}

// lock locks mu for Record. Another Record holds mu for less than half a microsecond. Lock of [sync.Mutex] would often
// wait for longer than that between two looks at it, and then put the goroutine to sleep.
func (p *Publisher) lock() {
	for range looks {
		if p.mu.TryLock() {
			return
		}
	}
	p.mu.Lock()
}

// looks is how often lock looks before it calls Lock: for two or three times as long as Record holds mu. 64 goroutines
// on two processors did 0.58 times as many cycles with an event log as without one. If lock did not look first, they
// did 0.52 times as many, and with 20 looks hardly more than that.
const looks = 200

// recorded reports whether agents record events of the kind to be told.
func recorded(k lockagent.EventKind) bool {
	return k.String() != lockagent.EventKind(0).String() && k != lockagent.EventHeld && k != lockagent.EventAlive &&
		k != lockagent.EventDropped
}

// wakeUp tells the sender that there may be something to do. p.mu must be held.
func (p *Publisher) wakeUp() {
	if !p.resting || p.outbox.full {
		return
	}
	p.resting = false
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// portion is how many records leave the queue while those who record have to wait. To take a record out means
// to fetch it from the cache of another processor, and a busy agent has thousands.
const portion = 64

// leave moves what is due out of the queue, to the end of out, if the outbox has room. It also
// returns what was dropped since the call before, and a lower bound of the order of the items.
// The caller makes messages of them and calls arrive. They stay as they are until these are settled.
//
// It lets go of p.mu between two portions. Facts arrive meanwhile, and are told by records that are
// still in the queue.
func (p *Publisher) leave(
	now time.Duration, out []*queue.Item,
) (items []*queue.Item, missing events.Drops, from uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	room := p.outbox.room()
	if room == 0 {
		return out, events.Drops{}, 0
	}
	if !p.closed && p.pulse.Due(now) {
		alive := p.pulse.Beat(now, time.Now())
		p.queue.Sign(now, &alive)
	}
	from = p.queue.From()
	missing, p.queue.Missing = p.queue.Missing, events.Drops{}
	p.leaving = leaving{some: true, from: from}
	items = p.queue.Take(now, min(portion, room), out)
	for n := portion; len(items) == n && n < room; n += portion {
		p.mu.Unlock()
		p.between() // those who record have their turn
		p.mu.Lock()
		if p.queue.Missing != (events.Drops{}) {
			break // what was dropped in the meantime comes before what is left
		}
		items = p.queue.More(now, min(portion, room-n), items)
	}
	p.leaving.some = len(items) > 0 || missing != (events.Drops{})
	return items, missing, from
}

// arrive puts messages of what left the queue into the outbox.
func (p *Publisher) arrive(messages []*queue.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.outbox.put(messages)
	p.leaving = leaving{}
	p.endFlushes()
}

// forEver is longer than anything is waited for.
const forEver = time.Hour

// rests returns how long there is nothing to do, unless the sender is woken.
func (p *Publisher) rests(now time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resting = true
	if p.outbox.full {
		return forEver
	}
	if p.queue.Missing != (events.Drops{}) {
		return 0
	}
	wait, ok := p.queue.Wait(now)
	if !ok {
		wait = forEver
	}
	if p.pulse.Beats && !p.closed {
		wait = min(wait, p.pulse.Next-now)
	}
	return wait
}

// Flush waits until every event that was recorded before the call, and not dropped, is in the
// stream. It returns the cause of ctx if that ends first, and [lockagent.ErrClosed] if the
// publisher is closed or stops first, with [Stats].Err if there is one. Of a publisher that has stopped by itself it
// returns that error also if nothing is left to wait for: what is recorded then is dropped.
func (p *Publisher) Flush(ctx context.Context) error { return p.flush(ctx, false) }

func (p *Publisher) flush(ctx context.Context, all bool) error {
	p.mu.Lock()
	if p.failed {
		p.mu.Unlock()
		return p.flushError()
	}
	f := flush{began: p.queue.Next, order: p.queue.Next, all: all, done: make(chan struct{})}
	p.flushes = append(p.flushes, f)
	p.queue.HurryUp()
	p.endFlushes()
	p.wakeUp()
	p.mu.Unlock()
	select {
	case <-f.done:
		return nil
	default:
	}
	select {
	case <-f.done:
		return nil
	case <-p.done:
		return p.flushError()
	case <-ctx.Done():
		p.mu.Lock()
		p.flushes = slices.DeleteFunc(p.flushes, func(other flush) bool { return other.done == f.done })
		p.mu.Unlock()
		return fmt.Errorf("events: flush: %w", lockagent.CauseOf(ctx))
	}
}

// flushError is the error of a flush that the publisher does not live to see.
func (p *Publisher) flushError() error {
	if why := p.Stats().Err; why != nil {
		return fmt.Errorf("events: flush: %w: %w", lockagent.ErrClosed, why)
	}
	return fmt.Errorf("events: flush: %w", lockagent.ErrClosed)
}

// followed notes that the last record tells of a fact that had an older record. p.mu must be held.
func (p *Publisher) followed(older uint64) {
	for i := range p.flushes {
		if f := &p.flushes[i]; older < f.began {
			f.order = p.queue.Next
		}
	}
}

// endFlushes ends the flushes that have what they wait for. p.mu must be held.
func (p *Publisher) endFlushes() {
	if len(p.flushes) == 0 {
		return
	}
	settled := p.outbox.from(p.queue.From())
	if p.leaving.some {
		settled = min(settled, p.leaving.from)
	}
	all := p.queue.Size == 0 && len(p.outbox.messages) == 0 && !p.leaving.some && p.queue.Missing == (events.Drops{})
	p.flushes = slices.DeleteFunc(p.flushes, func(f flush) bool {
		if settled < f.order || f.all && !all {
			return false
		}
		close(f.done)
		return true
	})
}

// Close waits like [Publisher.Flush] until the stream has every event or ctx
// ends, and then lets go of the connection; a server that hangs may hold it up
// for some seconds more.
//
// Events that are recorded after the call are dropped, and the log has no trace of them. So close
// the locks first: they record events until they are closed, and the last one says that the agent
// has stopped. Without it the log ends as that of an agent that crashed. [Stats] counts what came
// too late.
//
// Close returns a [*DroppedError] unless every event that was ever recorded is in
// the stream.
func (p *Publisher) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.flush(ctx, true) // what is missing is counted below
	p.stop()
	<-p.done
	p.endOverload()

	s := p.Stats()
	if s.Published == s.Recorded {
		return nil
	}
	return &DroppedError{Dropped: s.Dropped, Unconfirmed: s.Queued, Cause: s.Err}
}

// settled takes notice of a message that the stream has. p.mu must be held.
func (p *Publisher) settled(m *queue.Message) {
	p.stats.Published += uint64(m.Facts)
	p.stats.Records += uint64(len(m.Items))
	p.stats.Messages++
	p.queue.Gone(m.Items)
}

package events

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockagent/lockagent"
)

// Defaults of [Config].
const (
	DefaultStream    = "LOCKAGENT"
	DefaultQueueSize = 1 << 16
	DefaultMaxBytes  = 1 << 30
)

// Config says what a [Publisher] publishes and where. Agent and one of URL and
// InProcess must be set; everything else has a usable zero value.
type Config struct {
	Connection

	// Agent is whose events these are. It must be 1 to 64 letters, digits, '_'
	// and '-', as the text of a UUID is.
	Agent lockagent.AgentID

	// Epoch counts the lives of the agent. An agent that keeps its identity when
	// it starts again must give a greater one each time, or nothing is published,
	// with [ErrEpoch]. Below 10^10. Defaults to 1.
	Epoch uint64

	// Stream is the name of the stream. Defaults to [DefaultStream].
	Stream string

	// Prefix begins the subjects of all events. Defaults to "lockagent.v1".
	Prefix string

	// MaxBytes and MaxAge bound the stream if this publisher is the one who makes
	// it: the oldest events are removed. An existing stream is left as it is.
	// MaxBytes defaults to [DefaultMaxBytes], and -1 is no bound. MaxAge defaults
	// to no bound.
	MaxBytes int64
	MaxAge   time.Duration

	// QueueSize is how many events are kept until the stream has them, at about
	// 350 bytes each. It decides how long an outage of NATS may last before events
	// are dropped. Defaults to [DefaultQueueSize].
	QueueSize int

	// Renewals publishes EventRenewed too: one event for each lock and third of a
	// lease, which no reader in this package needs.
	Renewals bool
}

// check returns everything that is wrong with cfg, and sets its defaults.
func (cfg *Config) check() error {
	var errs []error
	bad := func(option, format string, args ...any) {
		errs = append(errs, &lockagent.OptionError{Option: option, Reason: fmt.Sprintf(format, args...)})
	}
	if err := cfg.Connection.check(); err != nil {
		errs = append(errs, err)
	}
	if _, err := lockagent.ParseAgentID(string(cfg.Agent)); err != nil {
		errs = append(errs, err)
	}
	if cfg.Epoch > maxEpoch {
		bad("Epoch", "%d is greater than %d", cfg.Epoch, uint64(maxEpoch))
	}
	if cfg.Stream == "" {
		cfg.Stream = DefaultStream
	}
	if err := checkStream(cfg.Stream); err != nil {
		errs = append(errs, err)
	}
	if cfg.MaxBytes < -1 || cfg.MaxAge < 0 {
		bad("MaxBytes or MaxAge", "%d bytes and %v cannot bound a stream", cfg.MaxBytes, cfg.MaxAge)
	}
	if cfg.QueueSize < 0 {
		bad("QueueSize", "%d is less than 0", cfg.QueueSize)
	}
	cfg.Epoch = max(cfg.Epoch, 1)
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = DefaultMaxBytes
	}
	if cfg.QueueSize == 0 {
		cfg.QueueSize = DefaultQueueSize
	}
	return errors.Join(errs...)
}

// Stats counts what happened to events. Recorded is always the sum of the three
// others.
type Stats struct {
	Recorded  uint64
	Published uint64 // acknowledged by the stream
	Dropped   uint64 // not kept: the queue was full, or the server refused them
	Queued    uint64 // not yet known to be in the stream

	// Err is why nothing is being published, or nil.
	Err error
}

// Publisher takes the events of one agent and publishes them. It must be made by
// [NewPublisher] and closed. All methods are safe for concurrent use.
type Publisher struct {
	cfg  Config
	stop context.CancelFunc
	done chan struct{} // closed when the sender has ended
	wake chan struct{} // capacity 1: there may be something to send

	mu        sync.Mutex // guards what follows
	queue     queue
	seq       uint64
	published uint64
	dropped   uint64
	idle      bool // the sender waits for wake
	closed    bool
	stalled   error
	flushes   []flush
}

// flush is a caller that waits until no item before index is in the queue.
type flush struct {
	index uint64
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
	p := &Publisher{
		cfg:   cfg,
		stop:  stop,
		done:  make(chan struct{}),
		wake:  make(chan struct{}, 1),
		queue: newQueue(cfg.QueueSize),
	}
	go newSender(p).run(ctx)
	return p, nil
}

// Record queues e to be published. It never blocks on the network and never
// fails: an event that finds the queue full, or the publisher closed, is
// dropped, counted, and leaves a hole in the sequence; so is one whose Kind is not
// in the catalogue. The Agent of e is taken to be that of the publisher.
func (p *Publisher) Record(_ context.Context, e lockagent.Event) {
	if e.Kind == lockagent.EventRenewed && !p.cfg.Renewals {
		return
	}
	e.Agent = p.cfg.Agent
	p.mu.Lock()
	p.seq++
	if p.closed || !validKind(e.Kind) || !p.queue.push(e, p.seq) {
		p.dropped++
	}
	p.wakeUp()
	p.mu.Unlock()
}

// wakeUp tells the sender that there may be something to send. p.mu must be
// held.
func (p *Publisher) wakeUp() {
	if !p.idle {
		return
	}
	p.idle = false
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Stats returns the counts as they are now.
func (p *Publisher) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{
		Recorded:  p.seq,
		Published: p.published,
		Dropped:   p.dropped,
		Queued:    p.unsettled(),
		Err:       p.stalled,
	}
}

// unsettled counts the events that are not known to be in the stream. p.mu must
// be held.
func (p *Publisher) unsettled() uint64 { return p.seq - p.published - p.dropped }

// Flush waits until every event that was recorded before the call, and not
// dropped, is in the stream. It returns the cause of ctx if that ends first, and
// [lockagent.ErrClosed] if the publisher is closed first.
func (p *Publisher) Flush(ctx context.Context) error {
	p.mu.Lock()
	if p.queue.empty() {
		p.mu.Unlock()
		return nil
	}
	f := flush{index: p.queue.tail, done: make(chan struct{})}
	p.flushes = append(p.flushes, f)
	p.mu.Unlock()
	select {
	case <-f.done:
		return nil
	case <-p.done:
		return fmt.Errorf("events: flush: %w", lockagent.ErrClosed)
	case <-ctx.Done():
		p.mu.Lock()
		p.flushes = slices.DeleteFunc(p.flushes, func(other flush) bool { return other == f })
		p.mu.Unlock()
		return fmt.Errorf("events: flush: %w", context.Cause(ctx))
	}
}

// Close waits like [Publisher.Flush] until the stream has every event or ctx
// ends, and then lets go of the connection; a server that hangs may hold it up
// for some seconds more. Events that are recorded after the call are dropped.
//
// Close returns a [*DroppedError] unless every event that was ever recorded is in
// the stream.
func (p *Publisher) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.Flush(ctx) // what is missing is counted below
	p.stop()
	<-p.done

	p.mu.Lock()
	defer p.mu.Unlock()
	if p.published == p.seq {
		return nil
	}
	return &DroppedError{Dropped: p.dropped, Unconfirmed: p.unsettled(), Cause: p.stalled}
}

// settle takes item i out of the queue, because the stream has it or because it
// never will. It does nothing for an item that was settled before. p.mu must be
// held.
func (p *Publisher) settle(i uint64, published bool) {
	if !p.queue.ack(i) {
		return
	}
	if published {
		p.published++
	} else {
		p.dropped++
	}
	p.flushes = slices.DeleteFunc(p.flushes, func(f flush) bool {
		if p.queue.head < f.index {
			return false
		}
		close(f.done)
		return true
	})
	p.wakeUp() // the window has moved
}

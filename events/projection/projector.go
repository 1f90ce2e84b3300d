package projection

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/fold"
	"github.com/lockagent/lockagent/events/natslog"
	"github.com/nats-io/nats.go"
)

const (
	// flushEvery is how often the bucket gets what has changed. What is over sooner is never written.
	flushEvery = 100 * time.Millisecond

	// statusEvery is how often the bucket gets the status, and the silence of agents is looked at.
	statusEvery = 10 * time.Second

	// pause is between two attempts to reach NATS.
	pause = time.Second
)

// DefaultMaxBytes is what a bucket that is made may have: more than 100,000 locks.
const DefaultMaxBytes = 256 << 20

// Config says what a [Projector] does. Log and Bucket must be set.
type Config struct {
	// Log is where the event log is. The bucket is in the same server and account.
	Log natslog.ReaderConfig

	// Bucket is the name of the bucket, which is made if there is none: 1 to 200 letters, digits, '_' and '-'.
	Bucket string

	// Replicas and MaxBytes are those of a bucket that is made. They default to 1 and DefaultMaxBytes. -1 bytes are no
	// bound.
	Replicas int
	MaxBytes int64

	// Begin is from when on the log is read, by the clock of its server. The zero Time is its beginning. Agents tell
	// every ten minutes of what goes on. So an hour ago is enough for all but the leases of agents that crashed before.
	Begin time.Time
}

// maxBucketName is how long the name of a bucket may be, in bytes.
const maxBucketName = 200

var bucketName = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

func (cfg *Config) check() error {
	if cfg.Replicas == 0 {
		cfg.Replicas = 1
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = DefaultMaxBytes
	}
	if cfg.Log.Logger == nil {
		cfg.Log.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case len(cfg.Bucket) > maxBucketName || !bucketName.MatchString(cfg.Bucket):
		return &lockagent.OptionError{Option: "Bucket", Reason: fmt.Sprintf(
			"%q is no name of a bucket; use letters, digits, '_' and '-', %d at most", cfg.Bucket, maxBucketName)}
	case cfg.Replicas < 1 || cfg.Replicas > 5:
		return &lockagent.OptionError{
			Option: "BucketReplicas", Reason: fmt.Sprintf("there are 1 to 5 copies of a bucket, not %d", cfg.Replicas),
		}
	case cfg.MaxBytes < -1:
		return &lockagent.OptionError{
			Option: "BucketMaxBytes", Reason: fmt.Sprintf("%d bytes cannot bound a bucket", cfg.MaxBytes),
		}
	}
	return nil
}

// Projector keeps a bucket up to date. It must be made by [New] and is run once.
type Projector struct {
	cfg     Config
	reader  *natslog.Reader
	bucket  bucket
	stream  string // whose events the fold has; empty before it has any
	reached uint64 // up to which position of the log the bucket has it
	away    bool   // it was said that the bucket is not kept up to date

	mu     sync.Mutex
	fold   *fold.Fold                               // guarded by mu
	locks  map[lockagent.Name]map[fold.LockKey]bool // guarded by mu; those that are held, by their names
	dirty  map[lockagent.Name]bool                  // guarded by mu; those that the bucket may have in another state
	silent map[lockagent.AgentID]bool               // guarded by mu; agents with holds that say nothing
	stats  Stats                                    // guarded by mu
}

// Stats is what a [Projector] has done.
type Stats struct {
	Position uint64 // up to which the log was read
	Held     int    // locks
	Written  int    // keys that were given another value, or removed
}

// New returns a projector. The error is a [*lockagent.OptionError], [events.ErrBadURL], or why NATS cannot be reached.
func New(cfg Config) (*Projector, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	reader, err := natslog.OpenReader(cfg.Log)
	if err != nil {
		return nil, err
	}
	p := &Projector{
		cfg: cfg, reader: reader, fold: fold.New(), locks: make(map[lockagent.Name]map[fold.LockKey]bool),
		dirty:  make(map[lockagent.Name]bool),
		silent: make(map[lockagent.AgentID]bool),
	}
	p.bucket = bucket{cfg: &p.cfg}
	if p.bucket.nc, err = natslog.Connect(cfg.Log.Connection, nats.Name("lockagent projector")); err == nil {
		p.bucket.js, err = cfg.Log.JetStream(p.bucket.nc)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *Projector) close() {
	if p.bucket.nc != nil {
		p.bucket.nc.Close()
	}
	p.reader.Close()
}

// Stats returns what was done so far.
func (p *Projector) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Held, s.Position = len(p.locks), p.fold.Position()
	return s
}

// Run keeps the bucket up to date until ctx ends, and returns the cause of that. It waits for a stream that is not
// there yet, and survives the absence of the server.
//
// It returns a [natslog.ErrNotPermitted], [ErrOtherKeys], or why the bucket cannot be read at the beginning.
func (p *Projector) Run(ctx context.Context) error {
	defer p.close()
	if err := p.bucket.open(ctx); err != nil {
		return p.bucket.explained(err)
	}
	for {
		err, wait := p.round(ctx), pause
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, natslog.ErrNotPermitted), errors.Is(err, ErrOtherKeys):
			return err
		case errors.Is(err, errOtherWrote):
			p.cfg.Log.Logger.Info("events: another projector has written to the bucket", "bucket", p.cfg.Bucket)
			wait = flushEvery
		case errors.Is(err, natslog.ErrNoStream):
			p.stays("events: waiting for the first agent to publish an event")
		default:
			p.stays("events: the bucket is not kept up to date until this is over", "err", err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// stays says once why the bucket stays as it is.
func (p *Projector) stays(why string, args ...any) {
	if !p.away {
		p.cfg.Log.Logger.Warn(why, append(args, "bucket", p.cfg.Bucket)...)
	}
	p.away = true
}

// round brings the bucket to what the log says, and keeps it there. It ends when another round is needed: whatever this
// projector and others have written, the next one begins with what the bucket has, and then reads the log up to its
// end.
func (p *Projector) round(ctx context.Context) error {
	if err := p.bucket.open(ctx); err != nil {
		return err
	}
	from, err := p.from(ctx)
	if err != nil {
		return err
	}
	if err := p.reader.Replay(ctx, from, events.Filter{}, p.catchUp); err != nil {
		return err
	}
	if err := p.compare(ctx); err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		stop(p.reader.Tail(ctx, p.next(), events.Filter{}, p.visit))
	}()
	stop(p.follow(ctx))
	<-ended
	return context.Cause(ctx)
}

// from is where to read on. A log that was cut or made anew is read from where the first one was.
func (p *Projector) from(ctx context.Context) (natslog.From, error) {
	state, err := p.reader.State(ctx)
	if err != nil {
		return natslog.From{}, err
	}
	if p.stream != state.ID() || state.Last < p.Stats().Position {
		if p.stream != "" {
			p.cfg.Log.Logger.Warn(
				"events: the event log was cut or made anew; the bucket will have what the log says now", "bucket", p.cfg.Bucket,
			)
		}
		p.stream = state.ID()
		p.mu.Lock()
		p.fold = fold.New()
		p.mu.Unlock()
	}
	return p.next(), nil
}

func (p *Projector) next() natslog.From {
	switch position := p.Stats().Position; {
	case position > 0:
		return natslog.FromPosition(position)
	case !p.cfg.Begin.IsZero():
		return natslog.FromTime(p.cfg.Begin)
	}
	return natslog.From{}
}

// catchUp applies a record. What it has changed shows when the bucket is compared.
func (p *Projector) catchUp(r *events.Record, err error) error {
	if err == nil { // the audit tells of what is no event
		p.mu.Lock()
		defer p.mu.Unlock()
		p.fold.Apply(*r)
	}
	return nil
}

// visit applies a record, and notes of which locks the bucket needs another value.
func (p *Projector) visit(r *events.Record, err error) error {
	switch {
	case errors.Is(err, natslog.ErrRewound):
		return err
	case err != nil:
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.fold.Apply(*r) {
		if c.Hold != nil {
			p.note(c.Lock)
			p.dirty[c.Lock.Lock] = true
		}
	}
	return nil
}

// note notes that a lock may be held.
func (p *Projector) note(key fold.LockKey) {
	of := p.locks[key.Lock]
	if of == nil {
		of = make(map[fold.LockKey]bool, 1)
		p.locks[key.Lock] = of
	}
	of[key] = true
}

// value is what the bucket has to have of a lock: nil if nobody holds it.
func (p *Projector) value(name lockagent.Name, now time.Time) ([]byte, error) {
	var holders []Holder
	held := make(map[fold.LockKey]bool, 1)
	for key := range p.locks[name] {
		l, _ := p.fold.Lock(key)
		if held[l.LockKey] { // by the identity that stands for all of its store
			continue
		}
		for _, h := range l.Now() {
			held[l.LockKey] = true
			agent, _ := p.fold.Agent(h.Agent)
			holders = append(holders, holderOf(&h, agent.Time, now))
		}
	}
	if p.locks[name] = held; len(held) == 0 {
		delete(p.locks, name)
	}
	return valueOf(name, holders)
}

// compare writes what the bucket has in another state than the log, and says how much that is.
func (p *Projector) compare(ctx context.Context) error {
	wanted := make(map[string][]byte)
	for _, key := range p.bucket.held() {
		wanted[key] = nil
	}
	p.mu.Lock()
	clear(p.locks)
	for l := range p.fold.Locks() {
		p.note(l.LockKey)
		p.dirty[l.Lock] = true
	}
	p.mu.Unlock()
	stale, err := p.flush(ctx, wanted)
	if err != nil {
		return err
	}
	if err := p.status(ctx); err != nil {
		return err
	}
	s := p.Stats()
	p.away = false
	p.cfg.Log.Logger.Info(
		"events: the bucket has who holds what", "bucket", p.cfg.Bucket, "locks", s.Held, "were_stale", stale, "position",
		s.Position,
	)
	return nil
}

// flush writes the keys in wanted, and those of the locks that are dirty, if they have another value. It returns how
// many it has written.
func (p *Projector) flush(ctx context.Context, wanted map[string][]byte) (written int, err error) {
	position, err := p.values(wanted)
	if err != nil {
		return 0, err
	}
	written, err = p.bucket.writeAll(ctx, wanted)
	if err == nil {
		p.reached = position
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Written += written
	return written, err
}

// values adds what the bucket has to have of the locks that are dirty, when the log was read up to a position.
func (p *Projector) values(wanted map[string][]byte) (position uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for name := range p.dirty {
		if wanted[Key(name)], err = p.value(name, now); err != nil {
			return 0, err
		}
	}
	clear(p.dirty)
	return p.fold.Position(), nil
}

// follow writes what changes. It ends with ctx, or with why it cannot go on.
func (p *Projector) follow(ctx context.Context) error {
	flush, status := time.NewTicker(flushEvery), time.NewTicker(statusEvery)
	defer flush.Stop()
	defer status.Stop()
	for {
		select {
		case <-flush.C:
			if _, err := p.flush(ctx, make(map[string][]byte)); err != nil {
				return err
			}
		case now := <-status.C:
			p.lookForSilence(now)
			p.bucket.forgetMarkers(now)
			if err := p.status(ctx); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// lookForSilence has the holds of agents written again that have become silent, or are it no more.
func (p *Projector) lookForSilence(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.silent
	p.silent = make(map[lockagent.AgentID]bool)
	for l := range p.fold.Locks() {
		for _, h := range l.Holders {
			agent, _ := p.fold.Agent(h.Agent)
			if isSilent(agent.Time, now) {
				p.silent[h.Agent] = true
			}
			if p.silent[h.Agent] != before[h.Agent] {
				p.dirty[l.Lock] = true
			}
		}
	}
}

// status writes how far the bucket is.
func (p *Projector) status(ctx context.Context) error {
	text, err := statusOf(p.stream, p.reached, time.Now())
	if err == nil {
		_, err = p.bucket.publish(ctx, StatusKey, text)
	}
	return err
}

package natslog

import (
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/lockagent/lockagent/events"
)

// quiet is how long nothing is logged again about what goes on.
const quiet = 10 * time.Second

// Stats counts what happened to events. Recorded is always the sum of Published, Dropped and
// Queued. An event that is told as a part of a record shares the fate of the record.
type Stats struct {
	Recorded  uint64
	Published uint64 // acknowledged by the stream
	Dropped   uint64 // not kept: the queue was full, or the publisher closed
	Queued    uint64 // not yet known to be in the stream

	// Records and Messages count what the stream acknowledged. The records are those made of
	// events, and those that the publisher adds. The messages are those that they travelled in.
	Records  uint64
	Messages uint64

	// DroppedByKind counts the records that were dropped. Index 0 counts events of unknown kinds.
	DroppedByKind events.Drops

	// Err is why nothing is being published, or nil.
	Err error
}

// Stats returns the counts as they are now.
func (p *Publisher) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Dropped, s.DroppedByKind = p.queue.Lost.Facts, p.queue.Lost.Kinds
	s.Queued = s.Recorded - s.Published - s.Dropped
	s.Err = p.stalled.err
	return s
}

// stall is what keeps a publisher or a forwarder from its work.
type stall struct {
	err    error
	logged []string      // the last reasons that were logged
	at     time.Duration // when something was logged, or 0
}

// mostLogged is of how many reasons a stall knows that they were logged.
const mostLogged = 16

// port is what differs from one attempt to connect to the next.
var port = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`:[0-9]+`) })

// note reports whether err is to be logged: each reason is logged once, and not more often than
// every ten seconds. The rest is for those who look for it.
func (s *stall) note(err error, now time.Duration) (logs bool) {
	s.err = err
	reason := port().ReplaceAllLiteralString(err.Error(), "")
	if slices.Contains(s.logged, reason) || s.at != 0 && now-s.at < quiet {
		return false
	}
	s.logged, s.at = append(s.logged[max(0, len(s.logged)-mostLogged+1):], reason), now
	return true
}

// over notes that the work goes on. It reports whether it was logged that it did not.
func (s *stall) over() (logs bool) {
	logs = len(s.logged) > 0
	*s = stall{at: s.at}
	return logs
}

// stall notes why nothing is published.
func (p *Publisher) stall(err error) {
	p.mu.Lock()
	logs := p.stalled.note(err, time.Since(p.began))
	p.mu.Unlock()
	if logs {
		p.cfg.Logger.Warn("events: nothing is published until this is over; events wait in the queue", "err", err)
	} else {
		p.cfg.Logger.Debug("events: still nothing is published", "err", err)
	}
}

// recovered notes that publishing goes on: something was acknowledged, or there
// is nothing to publish.
func (p *Publisher) recovered() {
	p.mu.Lock()
	logs := p.stalled.over()
	p.mu.Unlock()
	if logs {
		p.cfg.Logger.Info("events: publishing again", "dropped", p.Stats().Dropped)
	}
}

// fail notes that nothing will ever be published again.
func (p *Publisher) fail(err error) {
	p.mu.Lock()
	p.stalled.err = err
	p.closed, p.failed = true, true
	p.mu.Unlock()
	p.cfg.Logger.Error("events: the publisher stops; all further events are dropped", "err", err)
}

// overload says what was logged about drops.
type overload struct {
	timer *time.Timer // will log; nil if there is nothing to log
	at    time.Duration
	ended bool
}

// overloaded has drops logged: a second after the first, and then not more often than every ten
// seconds. p.mu must be held.
func (p *Publisher) overloaded(now time.Duration) {
	o := &p.overload
	if o.timer != nil || o.ended {
		return
	}
	wait := time.Second
	if o.at > 0 {
		wait = max(wait, o.at+quiet-now)
	}
	o.timer = time.AfterFunc(wait, p.logDrops)
}

func (p *Publisher) logDrops() {
	p.logging.Lock()
	defer p.logging.Unlock()
	p.mu.Lock()
	due := p.overload.timer != nil
	p.overload.timer, p.overload.at = nil, time.Since(p.began)
	lost := p.queue.Lost
	p.mu.Unlock()
	if due {
		p.cfg.Logger.Warn("events: the queue is full, and events are dropped; this is how many until now",
			"events", lost.Facts, "records", lost.Kinds.String())
	}
}

// endOverload logs what is still to be logged about drops.
func (p *Publisher) endOverload() {
	p.mu.Lock()
	if p.overload.timer != nil {
		p.overload.timer.Stop()
	}
	p.overload.ended = true
	p.mu.Unlock()
	p.logDrops()
}

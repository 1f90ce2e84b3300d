package claims

import (
	"context"
	"errors"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
)

// State says how far a claim is.
type State uint8

// The states of a claim.
const (
	Waiting State = iota
	Held
	Doubtful // held, but the last renewal has failed
	Over
)

// errGivenUp is the cause of the context of a claim that was released before its grant was received.
var errGivenUp = errors.New("claims: the client gave up the claim")

// claim is one claim. The mutex of the book guards what changes.
type claim struct {
	actor.NopWatcher
	book   *Book
	id     string
	secret fingerprint
	chosen bool // the client chose the secret
	Request
	cancel     context.CancelCauseFunc // ends the wait, and takes back a grant that nobody has received
	bound      *process                // what Request.ForPID names, or nil
	boundStart uint64                  // as Client.Started, of that process
	workers    []worker                // those that the claim lasts for without its client

	state    State
	ahead    int                    // how many claims waited for the lock when this one came
	since    time.Time              // when the claim was made, and then when it was granted
	waited   time.Duration          // until it was granted
	grants   <-chan lockagent.Grant // delivers the grant, to the stream; nil until the agent has taken the request
	grant    lockagent.Grant        // not held until the stream has received it
	holds    int                    // how many holds the grant serves; 0 if that was told to the daemon before
	doubt    error                  // of the last renewal, if that failed
	warning  Warning                // the last one
	cause    error                  // why the claim is over
	given    bool                   // up, by somebody who may
	lost     lockagent.LossReason   // why its client counts the hold as lost, if given is set; or 0
	unsaved  bool                   // the journal could not be written when the claim was granted
	stream   *Stream                // or nil
	by       Client                 // who has the stream, or had it last
	detached bool
	kept     bool // its client has released it, and the lock is held until expiry
	resumed  bool // from the daemon before, and its client has not come back
	// Ends a detached claim that has a time to live, and one whose client does not come back; or nil.
	expiry  *time.Timer
	expires time.Time     // when it does
	over    chan struct{} // closed at the end; nil unless somebody waits for that

	among      *list // of the claims on the lock, those that wait or those that hold it
	prev, next *claim
}

var _ actor.Watcher = (*claim)(nil)

// Queued implements [actor.Watcher].
func (c *claim) Queued(holder string) {
	c.book.mu.Lock()
	defer c.book.mu.Unlock()
	c.tell(func(s *Stream) { s.queued, s.holder = true, holder })
}

// Granted implements [actor.Watcher].
func (c *claim) Granted(holds int) {
	c.book.mu.Lock()
	defer c.book.mu.Unlock()
	now := time.Now()
	c.holds = holds
	c.state, c.since, c.waited = Held, now, now.Sub(c.since)
	c.book.granted(c)
	if c.book.cfg.Journal.Err() != nil { // the next daemon would not know of the grant, so nobody may rely on it
		c.given, c.unsaved = true, true
		c.cancel(refusal.ErrJournal)
		return
	}
	c.tell(func(s *Stream) { s.granted = true })
}

// Renewed implements [actor.Watcher].
func (c *claim) Renewed() {
	c.book.mu.Lock()
	defer c.book.mu.Unlock()
	if c.doubt != nil {
		c.state, c.doubt = Held, nil
		c.book.changed(c.Name)
	}
	c.tell(func(s *Stream) { s.renewed, s.uncertain = true, false })
}

// Uncertain implements [actor.Watcher].
func (c *claim) Uncertain(err error) {
	c.book.mu.Lock()
	defer c.book.mu.Unlock()
	c.state, c.doubt = Doubtful, err
	c.book.changed(c.Name)
	c.tell(func(s *Stream) { s.uncertain = true })
}

// Warned implements [actor.Watcher].
func (c *claim) Warned(wanted, uncertain bool) {
	c.book.mu.Lock()
	defer c.book.mu.Unlock()
	c.warning = Warning{Wanted: wanted, Uncertain: uncertain}
	c.tell(func(s *Stream) { s.warned = s.warns })
}

// Ended implements [actor.Watcher].
func (c *claim) Ended(cause error) {
	c.book.mu.Lock()
	bound := c.unbind()
	if c.book.left { // the next daemon goes on with it
		c.book.mu.Unlock()
		c.cancel(nil)
		bound.close()
		return
	}
	waited := c.state == Waiting
	c.state, c.cause = Over, cause
	switch {
	case c.unsaved:
		c.cause = refusal.ErrJournal
	case c.given && c.lost == 0 || errors.Is(cause, lockagent.ErrReleased):
		c.cause = nil
	}
	c.book.cfg.Journal.Drop(c.id)
	c.book.remove(c, waited)
	if c.expiry != nil {
		c.expiry.Stop()
	}
	if c.over != nil {
		close(c.over)
	}
	c.tell(func(*Stream) {})
	c.book.mu.Unlock()
	c.cancel(nil) // lets go of the context
	bound.close()
}

// tell notes news for the stream, if there is one, and wakes it. The mutex must be held.
func (c *claim) tell(note func(*Stream)) {
	if c.stream != nil {
		note(c.stream)
		c.stream.awake()
	}
}

// giveUp ends the claim. lost is why its client counts the hold as lost, or 0. It reports false if the claim has been
// given up or is over already. release delivers the outcome if the claim held its lock, and else is nil.
func (c *claim) giveUp(lost lockagent.LossReason) (release <-chan error, first bool) {
	c.book.mu.Lock()
	if c.given || c.state == Over || c.book.left {
		c.book.mu.Unlock()
		return nil, false
	}
	c.given, c.lost = true, lost
	g := c.grant
	c.book.mu.Unlock()
	c.cancel(errGivenUp)
	if g.Token() != 0 {
		release = g.ReleaseAsync(actor.WithLoss(context.Background(), lost))
	}
	return release, true
}

// abandon ends a claim whose client has gone for good, or a detached one whose time to live has passed, unless it is a
// hold that stays, or whose workers are left. The client counts the hold as lost.
func (c *claim) abandon() {
	c.book.mu.Lock()
	lost := lockagent.LostUnclaimed
	if c.detached {
		lost = c.expired()
	}
	stays := c.stay() || !c.detached && c.passOn()
	c.book.mu.Unlock()
	if !stays {
		c.giveUp(lost)
	}
}

// stay detaches a hold that outlives its stream, and reports whether the claim is one. The mutex must be held.
func (c *claim) stay() bool {
	if !c.Outlive || c.detached || c.book.left || c.state != Held && c.state != Doubtful {
		return false
	}
	if c.expiry != nil {
		c.expiry.Stop()
		c.expiry = nil
	}
	c.detached, c.resumed = true, false
	c.save(true, 0)
	c.book.changed(c.Name)
	return true
}

// await waits until the claim is over.
func (c *claim) await(ctx context.Context) error {
	c.book.mu.Lock()
	if c.state == Over {
		c.book.mu.Unlock()
		return nil
	}
	if c.over == nil {
		c.over = make(chan struct{})
	}
	over := c.over
	c.book.mu.Unlock()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// willGet tells what delivers the grant. Others may have found the claim before, and may have been told that it was
// granted.
func (c *claim) willGet(grants <-chan lockagent.Grant) {
	c.book.mu.Lock()
	defer c.book.mu.Unlock()
	c.grants = grants
	if c.state != Waiting {
		c.tell(func(*Stream) {})
	}
}

// receive takes the grant from the agent, if that has not taken it back. The claim was granted. The mutex must be held:
// several streams of the claim may want the grant, one after the other.
func (c *claim) receive() bool {
	if c.grant.Token() == 0 && c.grants != nil {
		c.grant = <-c.grants // the agent delivers it right after it has told of it, and needs nothing of ours for that
	}
	return c.grant.Token() != 0
}

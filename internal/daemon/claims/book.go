package claims

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/internal/bootclock"
	"github.com/lockagent/lockagent/internal/daemon/quota"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
)

// Book has all claims of a daemon. Make one with [New].
type Book struct {
	cfg   Config
	agent *actor.Agent  // nil before Begin
	begun chan struct{} // closed by Begin

	mu       sync.Mutex // guards what follows, and what changes of the claims, the streams and the watches
	claims   map[string]*claim
	chosen   map[fingerprint]*claim // those whose clients chose the secret
	locks    map[lockagent.Name]*lock
	watches  map[*Watch]struct{}
	draining bool
	ending   bool          // with draining: nobody takes that back
	drained  chan struct{} // closed when there is no claim, or claims are taken again; nil unless somebody waits for that
	left     bool          // the next daemon goes on with the claims

	records map[string]record        // of the daemon before, until Begin
	orphans []<-chan lockagent.Grant // of requests without a record, until Begin
}

// lock has the claims on one lock.
type lock struct {
	kind          lockagent.LockKind
	waiting, held list
}

// Acquire makes a claim. The stream tells what becomes of it, and that it was denied as well. An error is about what
// the claim may not be at all. If the client chose a secret, and has a claim with it, the stream is one of that claim.
func (b *Book) Acquire(req Request) (*Stream, error) {
	if err := req.check(); err != nil {
		return nil, err
	}
	secret := req.Secret
	req.Secret = "" // the claim has its fingerprint
	if req.ForPID != 0 {
		if err := sameNumbers(req.Client); err != nil {
			return nil, err
		}
	}
	bound, err := bind(req.ForPID, req.Client)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	req.Labels = maps.Clone(req.Labels)
	trace := context.Background()
	if req.Trace != nil {
		trace, req.Trace = context.WithoutCancel(req.Trace), nil // the claim lives longer than the caller
	}
	c := &claim{book: b, id: newID(now), Request: req, by: req.Client, since: now, chosen: secret != ""}
	if !c.chosen {
		secret = newSecret()
	}
	c.secret = fingerprintOf(secret)
	if bound != nil {
		c.boundStart = b.started(req.ForPID)
	}
	ctx, cancel := context.WithCancelCause(trace)
	c.cancel = cancel
	s, err := b.add(c, bound, secret)
	if s == nil || s.claim != c { // it may not be, or the client has it already
		cancel(nil)
		bound.close()
		return s, err
	}
	bound.watch(func() { c.processEnded(bound) })
	c.willGet(b.agent.Acquire(ctx, req.Name, req.asks(c.id, c, b.who(&req))))
	return s, nil
}

// again returns another stream of the claim whose client chose the secret, or nil if there is none. The mutex must be
// held.
func (b *Book) again(secret string, req *Request) (*Stream, error) {
	c := b.chosen[fingerprintOf(secret)]
	switch {
	case c == nil || c.given:
		return nil, nil //nolint:nilnil // there is none
	case c.Client.UID != req.Client.UID || c.Name != req.Name:
		return nil, &lockagent.OptionError{Option: "secret", Reason: "another claim has it; choose a new one for each claim"}
	}
	s, err := c.attach(secret, req.Client, req.News, c.Detach)
	if errors.Is(err, refusal.ErrNoClaim) {
		return nil, nil //nolint:nilnil // it has ended just now
	}
	return s, err
}

// Attach returns a stream of a claim for a client, in place of the one that the claim has. A detached claim is not
// detached any more, and neither its time to live nor its process ends it. The id may be empty if the client of the
// claim chose the secret. news is as in [Request].
func (b *Book) Attach(by Client, id, secret string, news func()) (*Stream, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, err := b.living(b.named(id, secret), secret)
	if err != nil {
		return nil, err
	}
	return c.attach(secret, by, news, false)
}

// named is the id of a claim that a client names. It may be empty if the client of the claim chose the secret. The
// mutex must be held.
func (b *Book) named(id, secret string) string {
	if c := b.chosen[fingerprintOf(secret)]; id == "" && c != nil {
		return c.id
	}
	return id
}

// attach is Attach, or what repeats a request. That one leaves the claim detached, or to be detached when the client is
// told of its grant. The mutex must be held.
func (c *claim) attach(secret string, by Client, news func(), detach bool) (*Stream, error) {
	b := c.book
	if b.left {
		return nil, lockagent.ErrClosed
	}
	if c.stream != nil { // the new stream takes its place
		b.cfg.Quotas.Add(c.Client.UID, quota.Streams)
	} else if err := b.cfg.Quotas.Take(c.Client.UID, quota.Streams); err != nil {
		return nil, err
	}
	if !c.goOn(detach) {
		b.cfg.Quotas.Leave(c.Client.UID, quota.Streams)
		return nil, refusal.ErrNoClaim
	}
	if c.stream != nil {
		c.stream.close()
	}
	if changed := c.detached || c.Detach || c.by != by; changed {
		if c.by = by; !detach {
			c.free()
		}
		until := time.Duration(0)
		if c.detached {
			until = expires(c.TTL)
		}
		c.save(c.detached, until)
		// If it fails, the next daemon takes the claim for one that is detached, or of a client that has ended.
		_ = b.cfg.Journal.Flush()
	}
	c.resumed = false
	s := newStream(c, secret, news)
	c.stream = s
	s.queued, s.granted, s.uncertain = c.state == Waiting, c.state != Waiting, c.doubt != nil
	s.awake()
	b.changed(c.Name)
	return s, nil
}

// goOn keeps the claim from the end that waits for it: it has a stream again. One that repeats a request leaves a
// detached claim detached, and begins its time to live anew. It reports false if the time has passed just now, and the
// claim is about to end. The mutex must be held.
func (c *claim) goOn(detach bool) bool {
	switch {
	case detach && c.detached: // somebody may have been told of it, so it does not end with this stream
		return c.live(c.TTL)
	case c.expiry == nil:
		return true
	case !c.expiry.Stop():
		return false
	}
	c.expiry = nil
	return true
}

// free has nothing but its client end the claim from now on. The mutex must be held.
func (c *claim) free() {
	c.unbind().close()
	c.Detach, c.detached, c.kept, c.TTL, c.ForPID, c.boundStart = false, false, false, 0, 0, 0
}

// unbind takes the process from the claim, which may have none. The mutex must be held.
func (c *claim) unbind() *process {
	p := c.bound
	if p != nil {
		c.bound = nil
		c.book.cfg.Quotas.Leave(c.Client.UID, quota.Processes)
	}
	return p
}

// Release ends a claim, and waits until it is over. It reports false if there is no such claim. The error is that of
// [lockagent.Grant.Release], or [refusal.ErrNoClaim] if the secret is wrong.
func (b *Book) Release(ctx context.Context, id, secret string, lost lockagent.LossReason) (ended bool, err error) {
	b.mu.Lock()
	if b.claims[id] == nil {
		b.mu.Unlock()
		return false, nil
	}
	c, err := b.find(id, secret)
	if err == nil && b.left {
		err = lockagent.ErrClosed // the next daemon releases it
	}
	b.mu.Unlock()
	if err != nil {
		return false, err
	}
	release, first := c.giveUp(lost)
	if release != nil {
		select {
		case err = <-release:
		case <-ctx.Done():
			return first, context.Cause(ctx)
		}
	}
	return first, errors.Join(err, c.await(ctx))
}

// Renewal is when a claim ends at the latest, if nothing is done.
type Renewal struct {
	// Hold is until when its hold can be trusted. It is 0 if the claim waits.
	Hold Deadline
	// Expires is when a detached claim ends that nobody renews. It is 0 if it has no time to live.
	Expires Deadline
}

// Renew begins the time to live of a detached claim anew, if ttl is not 0, and its fixed lease, if lease is not 0.
func (b *Book) Renew(ctx context.Context, id, secret string, ttl, lease time.Duration) (Renewal, error) {
	now := bootclock.Now()
	b.mu.Lock()
	c, err := b.living(id, secret)
	if err == nil && ttl != 0 {
		err = c.outlast(ttl)
	}
	if err != nil {
		b.mu.Unlock()
		return Renewal{}, err
	}
	g := c.grant
	b.mu.Unlock()
	var r Renewal
	switch {
	case lease != 0:
		if r.Hold, err = b.extend(ctx, g, lease); err != nil {
			return Renewal{}, err
		}
	case g.Token() != 0:
		r.Hold = deadline(g)
	}
	if ttl != 0 {
		r.Expires = Deadline(now + ttl)
	}
	return r, nil
}

// extend begins a fixed lease anew, and returns the deadline of the hold.
func (b *Book) extend(ctx context.Context, g lockagent.Grant, lease time.Duration) (Deadline, error) {
	if err := b.cfg.Journal.Err(); err != nil { // the next daemon takes the end in the journal for the end
		return 0, fmt.Errorf("%w (%w)", refusal.ErrJournal, err)
	}
	err := g.Extend(ctx, lease)
	at := deadline(g)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.left: // the next daemon extends it, and has the hold
		return 0, lockagent.ErrClosed
	case err != nil:
		return 0, err
	case b.cfg.Journal.Err() != nil: // perhaps it does not have this end
		return 0, fmt.Errorf("%w (%w)", refusal.ErrJournal, b.cfg.Journal.Err())
	}
	return at, nil
}

// outlast begins the time to live anew. The mutex must be held.
func (c *claim) outlast(ttl time.Duration) error {
	if err := lockagent.CheckLease(ttl); err != nil {
		return &lockagent.OptionError{
			Option: "ttl", Reason: ttl.String() + " is no time to live; it is between 1ms and a year",
		}
	}
	if !c.detached {
		return &lockagent.OptionError{
			Option: "ttl", Reason: "the claim has a stream, and lasts as long as that; leave ttl out",
		}
	}
	c.TTL = ttl
	c.save(true, bootclock.Now()+ttl)
	if err := c.book.cfg.Journal.Flush(); err != nil {
		return fmt.Errorf("%w (%w)", refusal.ErrJournal, err)
	}
	if !c.live(ttl) {
		return refusal.ErrNoClaim
	}
	return nil
}

// live begins a time to live, or begins it anew. It reports false if the one before has passed just now. 0 is without
// end. The mutex must be held.
func (c *claim) live(ttl time.Duration) bool {
	if ttl == 0 {
		return true
	}
	c.expires = time.Now().Add(ttl)
	if c.expiry == nil {
		c.expiry = time.AfterFunc(ttl, func() { c.giveUp(c.expired()) })
		return true
	}
	return c.expiry.Reset(ttl)
}

// find returns the claim, if the secret is right. The mutex must be held.
func (b *Book) find(id, secret string) (*claim, error) {
	c := b.claims[id]
	if c == nil || !c.secret.matches(secret) {
		return nil, refusal.ErrNoClaim
	}
	return c, nil
}

// living is find for a claim that nobody has given up. The mutex must be held.
func (b *Book) living(id, secret string) (*claim, error) {
	c, err := b.find(id, secret)
	if err == nil && c.given {
		return nil, refusal.ErrNoClaim
	}
	return c, err
}

// add enters a claim, which may be bound to a process, unless it is one too many, and opens its stream. If the client
// has a claim with the secret already, the stream is one of that.
func (b *Book) add(c *claim, bound *process, secret string) (*Stream, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.chosen {
		if s, err := b.again(secret, &c.Request); s != nil || err != nil {
			return s, err
		}
	}
	if b.draining {
		return nil, refusal.ErrDraining
	}
	if b.cfg.Journal.Err() != nil {
		return nil, refusal.ErrJournal
	}
	if err := b.take(c, bound != nil); err != nil {
		return nil, err
	}
	b.enter(c)
	c.bound = bound
	c.save(false, 0) // before the agent writes the request
	c.stream = newStream(c, secret, c.News)
	return c.stream, nil
}

// take counts a claim with its stream, which may be bound to a process. One that does not wait is never one too many of
// those that wait. The mutex must be held.
func (b *Book) take(c *claim, bound bool) error {
	of := []quota.Kind{quota.Claims, quota.Waiters, quota.Streams}
	if c.Try {
		of = []quota.Kind{quota.Claims, quota.Streams}
	}
	if bound {
		of = append(of, quota.Processes)
	}
	err := b.cfg.Quotas.Take(c.Client.UID, of...)
	if err == nil && c.Try {
		b.cfg.Quotas.Add(c.Client.UID, quota.Waiters)
	}
	return err
}

// enter enters a claim that waits, and that has been counted. The mutex must be held.
func (b *Book) enter(c *claim) {
	b.claims[c.id] = c
	if c.chosen {
		b.chosen[c.secret] = c
	}
	l := b.locks[c.Name]
	if l == nil {
		l = &lock{kind: c.Kind.OrPlain()}
		b.locks[c.Name] = l
	}
	c.ahead = l.waiting.len
	l.waiting.add(c)
	b.changed(c.Name)
}

// granted enters that a claim holds its lock. The mutex must be held.
func (b *Book) granted(c *claim) {
	b.cfg.Quotas.Leave(c.Client.UID, quota.Waiters)
	c.remove()
	b.locks[c.Name].held.add(c)
	b.changed(c.Name)
}

// remove removes a claim that is over. The mutex must be held.
func (b *Book) remove(c *claim, waited bool) {
	b.cfg.Quotas.Leave(c.Client.UID, quota.Claims)
	if waited {
		b.cfg.Quotas.Leave(c.Client.UID, quota.Waiters)
	}
	c.remove()
	if l := b.locks[c.Name]; l.waiting.len+l.held.len == 0 {
		delete(b.locks, c.Name)
	}
	delete(b.claims, c.id)
	if b.chosen[c.secret] == c { // otherwise the client has asked anew after it had given up this one
		delete(b.chosen, c.secret)
	}
	b.changed(c.Name)
	if len(b.claims) == 0 {
		b.wakeDrained()
	}
}

// Drain ends the taking of claims, and tells the clients that the daemon ends when left has passed. [Book.Undrain]
// takes it back.
func (b *Book) Drain(left time.Duration) { b.drain(left, false) }

// End is [Book.Drain] that nobody can take back.
func (b *Book) End(left time.Duration) { b.drain(left, true) }

func (b *Book) drain(left time.Duration, ends bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.draining, b.ending = true, b.ending || ends
	for _, c := range b.claims {
		c.tell(func(s *Stream) { s.draining, s.left = true, left })
	}
}

// Undrain has claims be taken again. If the daemon is about to end, the error is [refusal.ErrDraining].
func (b *Book) Undrain() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ending {
		return refusal.ErrDraining
	}
	b.draining = false
	b.wakeDrained()
	return nil
}

// wakeDrained ends the wait for the last claim. The mutex must be held.
func (b *Book) wakeDrained() {
	if b.drained != nil {
		close(b.drained)
		b.drained = nil
	}
}

// Drains reports whether no new claims are taken.
func (b *Book) Drains() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.draining
}

// Await waits until there is no claim, claims are taken again, or ctx ends. It returns how many claims are left.
func (b *Book) Await(ctx context.Context) int {
	b.mu.Lock()
	if len(b.claims) == 0 {
		b.mu.Unlock()
		return 0
	}
	if b.drained == nil {
		b.drained = make(chan struct{})
	}
	drained := b.drained
	b.mu.Unlock()
	select {
	case <-drained:
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.claims)
}

// Counts is how many claims there are.
type Counts struct{ Held, Waiting int }

// Counts tells how many claims there are.
func (b *Book) Counts() Counts {
	b.mu.Lock()
	defer b.mu.Unlock()
	waiting := b.cfg.Quotas.Total(quota.Waiters)
	return Counts{Held: len(b.claims) - waiting, Waiting: waiting}
}

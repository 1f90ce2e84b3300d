package claims

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
	"github.com/lockagent/lockagent/internal/bootclock"
	"github.com/lockagent/lockagent/internal/daemon/quota"
)

// Config is what a book is made of. The zero Config is that of a book whose claims end with the process.
type Config struct {
	// Journal keeps the claims for the next daemon. It may be nil.
	Journal Journal
	// Records are those of the daemon before. They must be empty if the machine was booted since.
	Records map[string][]byte
	// Grace is for how long a claim of the daemon before waits for its client.
	Grace time.Duration
	// Started tells when a process started, as in Client.Started, or 0 if there is no such process. If it is nil,
	// nobody knows.
	Started func(pid int) uint64
	// Who says which process is behind a request. If it is nil, nobody knows.
	Who func(*Request) lockagent.Who
	// Quotas counts the claims, their streams, and the processes to which they are bound, each of which takes a
	// descriptor. The book asks it while it holds its own mutex. So a count is never of something that has just ended.
	// If it is nil, there are no bounds.
	Quotas *quota.Bureau
}

// New returns a book. It has the claims of the daemon before when Begin has returned. Nothing else may be called
// earlier, but Resumed. The error is about a record.
func New(cfg Config) (*Book, error) {
	if cfg.Journal == nil {
		cfg.Journal = forgetful{}
	}
	if cfg.Quotas == nil {
		cfg.Quotas = quota.New(quota.Config{})
	}
	b := &Book{
		cfg: cfg, claims: make(map[string]*claim), chosen: make(map[fingerprint]*claim),
		locks: make(map[lockagent.Name]*lock), watches: make(map[*Watch]struct{}),
		records: make(map[string]record, len(cfg.Records)), begun: make(chan struct{}),
	}
	for id, data := range cfg.Records {
		var r record
		if err := json.Unmarshal(data, &r); err != nil || len(r.Secret) != len(fingerprint{}) {
			return nil, fmt.Errorf("claims: the record of claim %.64s cannot be read: %.256q", id, data)
		}
		b.records[id] = r
	}
	return b, nil
}

// Resumed is for [actor.Config]: the claim whose request goes on goes on as well.
func (b *Book) Resumed(r actor.ResumedRequest) (context.Context, actor.Watcher, lockagent.Who) {
	b.mu.Lock()
	defer b.mu.Unlock()
	id := cmp.Or(r.Tag, string(r.Owner))
	of, ok := b.records[id]
	ctx, cancel := context.WithCancelCause(context.Background())
	if !ok { // the claim had ended, and the agent before had not written yet that its request had
		cancel(errGivenUp)
		b.orphans = append(b.orphans, r.Grant)
		return ctx, nil, lockagent.Who{}
	}
	delete(b.records, id)
	c := &claim{
		book: b, id: id, secret: fingerprint(of.Secret), chosen: of.Chosen, cancel: cancel, boundStart: of.ForStart,
		workers: of.Workers,
		Request: Request{
			Client: of.Client, Name: r.Name, Kind: r.Kind, Mode: r.Mode, Permits: r.Permits, Lease: r.Lease, Detach: of.Detach,
			TTL: of.TTL, ForPID: of.ForPID, Session: of.Session, Command: of.Command, Labels: of.Labels, Holds: of.Holds,
			Outlive: of.Outlive,
		},
		since: time.Now().Add(-r.For), grants: r.Grant, by: of.Client, resumed: !of.Detached, detached: of.Detached,
		kept: of.Kept,
	}
	if of.By != nil {
		c.by = *of.By
	}
	left := b.cfg.Grace
	b.cfg.Quotas.Add(c.Client.UID, quota.Claims, quota.Waiters)
	b.enter(c)
	if !r.Waits {
		c.state = Held
		b.granted(c)
		left = min(left, r.Remaining)
	}
	if of.Detached {
		left = min(of.Expires-bootclock.Now(), of.TTL) // of.Expires may be of another clock, and nobody may know that
	}
	if !of.Detached || of.Expires != 0 {
		// The claim may not end before Begin: its grant has to be there.
		c.expires = time.Now().Add(max(left, 0))
		c.expiry = time.AfterFunc(max(left, 0), func() {
			<-b.begun
			c.abandon()
		})
	}
	return ctx, c, b.who(&c.Request)
}

// Begin begins to serve the claims, which the agent holds. If the agent goes on from a journal, Resumed was in its
// Config. It returns how many claims go on, and how many of the daemon before do not.
func (b *Book) Begin(agent *actor.Agent) (goOn, over int) {
	b.agent = agent
	b.mu.Lock()
	var ended []*claim
	for _, c := range b.claims {
		if c.state != Waiting {
			c.grant = <-c.grants // the agent has delivered it
		}
		if b.hasEnded(c) && !c.stay() && !c.passOn() {
			ended = append(ended, c)
		}
	}
	for id := range b.records {
		b.cfg.Journal.Drop(id)
	}
	orphans := b.orphans
	goOn, over = len(b.claims)-len(ended), len(b.records)+len(ended)
	b.records, b.orphans = nil, nil
	b.mu.Unlock()
	close(b.begun)
	for _, c := range ended {
		c.giveUp(0)
	}
	for _, grants := range orphans {
		select {
		case g := <-grants:
			if g.Token() != 0 {
				g.ReleaseAsync(context.Background())
			}
		default: // it waits, and its context has ended
		}
	}
	return goOn, over
}

// hasEnded reports whether what a claim of the daemon before was bound to has ended. If it has not, the claim is bound
// to it again. The mutex must be held.
func (b *Book) hasEnded(c *claim) bool {
	if !c.detached && c.by.Started != 0 && b.cfg.Started != nil && b.cfg.Started(c.by.PID) != c.by.Started {
		return true
	}
	if c.ForPID == 0 {
		return false
	}
	return !c.bindAgain(c.ForPID, c.boundStart)
}

// who says which process is behind a request.
func (b *Book) who(r *Request) lockagent.Who {
	if b.cfg.Who == nil {
		return lockagent.Who{}
	}
	return b.cfg.Who(r)
}

// started tells when a process started, or 0 if that is not known.
func (b *Book) started(pid int) uint64 {
	if b.cfg.Started == nil {
		return 0
	}
	return b.cfg.Started(pid)
}

// Leave leaves the claims to the next daemon: from now on none of them ends, and nobody is told anything. Detach the
// agent, and end the connections of the clients. They attach to their claims again, when the next daemon listens.
func (b *Book) Leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.draining, b.ending, b.left = true, true, true
	for _, c := range b.claims {
		if c.expiry != nil {
			c.expiry.Stop()
		}
	}
}

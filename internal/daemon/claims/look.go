package claims

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
)

// MaxTold bounds how many holders of a lock are told of, and how many waiters.
const MaxTold = 100

// Lock is a lock that clients hold or wait for.
type Lock struct {
	Name lockagent.Name
	Kind lockagent.LockKind
	// Holders and Waiters are the oldest, at most MaxTold of each. Held and Waiting is how many there are.
	Holders, Waiters []Claim
	Held, Waiting    int
}

// Claim is a claim as others may see it.
type Claim struct {
	ID       string
	State    State
	Client   Client
	Mode     lockagent.Mode
	Permits  int
	Token    lockagent.Token // 0 until the client has the grant
	Since    time.Time       // when it was granted, or asked for
	Left     time.Duration   // until the deadline
	Detached bool
	Resumed  bool // from the daemon before, and its client has not come back
	Session  string
	Command  string
	Labels   map[string]string
	Workers  []int     // the processes that work under it, as its client has told
	Expires  time.Time // when a detached claim ends unless somebody renews it, or zero
	ForPID   int       // the process that a detached claim ends with, or 0
}

// Lock returns a lock as it is now. It is without claims if no client uses it.
func (b *Book) Lock(name lockagent.Name) Lock {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.look(name)
}

// Holds reports whether a claim holds the lock of a name with a token. One that serves several holds has the tokens of
// all of them: the client alone knows which of them it has come to.
func (b *Book) Holds(name lockagent.Name, token lockagent.Token) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.locks[name]; l != nil {
		for c := l.held.first; c != nil; c = c.next {
			if first := c.grant.Token(); first <= token && token < first+lockagent.Token(max(1, c.Request.Holds)) &&
				c.grant.Held() {
				return true
			}
		}
	}
	return false
}

// Whose returns the user and the lock of a claim, if the secret is right. The id is as for Attach.
func (b *Book) Whose(id, secret string) (uid uint32, name lockagent.Name, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, err := b.find(b.named(id, secret), secret)
	if err != nil {
		return 0, "", false
	}
	return c.Client.UID, c.Name, true
}

// Locks returns up to most locks whose names match, in the order of their names, and only those after a name. more
// tells that there are others. If ctx ends, the error is its cause: nobody waits for the rest.
func (b *Book) Locks(
	ctx context.Context, match func(lockagent.Name) bool, after lockagent.Name, most int,
) (found []Lock, more bool, err error) {
	b.mu.Lock()
	names := slices.Collect(maps.Keys(b.locks))
	b.mu.Unlock()
	slices.Sort(names)
	for _, name := range names {
		if ctx.Err() != nil {
			return nil, false, context.Cause(ctx)
		}
		if name <= after || !match(name) { // a pattern may take long, and the claims do not wait for it
			continue
		}
		if len(found) == most {
			return found, true, nil
		}
		if l := b.Lock(name); l.Held+l.Waiting > 0 { // nobody uses the others any more
			found = append(found, l)
		}
	}
	return found, false, nil
}

// look is Lock. The mutex must be held.
func (b *Book) look(name lockagent.Name) Lock {
	l := b.locks[name]
	if l == nil {
		return Lock{Name: name}
	}
	return Lock{
		Name: name, Kind: l.kind, Held: l.held.len, Waiting: l.waiting.len,
		Holders: l.held.tell(), Waiters: l.waiting.tell(),
	}
}

// tell tells of the oldest claims.
func (l *list) tell() (told []Claim) {
	for c := l.first; c != nil && len(told) < MaxTold; c = c.next {
		var expires time.Time
		if c.detached && c.expiry != nil {
			expires = c.expires
		}
		told = append(told, Claim{
			ID: c.id, State: c.state, Client: c.Client, Mode: c.Mode, Permits: c.Permits, Token: c.grant.Token(), Since: c.since,
			Left: c.grant.Remaining(), Detached: c.detached, Resumed: c.resumed, Session: c.Session, Command: c.Command,
			Labels:  c.Labels,
			Workers: c.workerPIDs(),
			Expires: expires, ForPID: c.ForPID,
		})
	}
	return told
}

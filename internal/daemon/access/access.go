package access

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/quota"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
)

// Config is what an [Access] knows from the beginning. There is no useful zero value.
type Config struct {
	// Self is the user of the daemon.
	Self uint32
	// Directory is asked for the users and groups in rules, when they are set.
	Directory Directory
	// Now tells the time.
	Now func() time.Time
	// Refused is told of a refusal, for each user and reason once in a minute. unsaid is the number of refusals since
	// the last one that was told. Several goroutines may call it at once.
	Refused func(uid uint32, err error, unsaid uint64)

	Rules  []Rule
	Limits Limits
	Room   Room
}

// Access decides what clients may do. Make it with [New].
type Access struct {
	self      uint32
	directory Directory
	room      Room
	quotas    *quota.Bureau
	policy    atomic.Pointer[policy]
	refusals  refusals
}

// policy is what a reload replaces.
type policy struct {
	rules  []compiled
	limits Limits
}

// New returns an Access. It returns an error if a user or a group in a rule is not known.
func New(cfg Config) (*Access, error) {
	a := &Access{
		self: cfg.Self, directory: cfg.Directory, room: cfg.Room,
		refusals: refusals{now: cfg.Now, tell: cfg.Refused, seen: make(map[refusalKey]*refusalState)},
	}
	a.quotas = quota.New(quota.Config{
		Bound: a.bound, Privileged: func(uid uint32) bool { return uid == 0 || uid == a.self },
	})
	return a, a.Replace(cfg.Rules, cfg.Limits)
}

// Replace has other rules and limits count from now on. Nothing that was allowed ends by that. If it returns an error,
// the old ones go on counting.
func (a *Access) Replace(rules []Rule, limits Limits) error {
	next, err := compile(rules, a.directory)
	if err == nil {
		a.policy.Store(&policy{next, limits})
	}
	return err
}

// Check returns nil if p has a right to a name, and else a [*Forbidden] or a [*lockagent.NameError]. A drain has no
// name: give the empty one. Ask for one right at a time.
func (a *Access) Check(p Peer, right Right, name string) error {
	now := a.policy.Load()
	if rule, ok := now.allows(p, right, name, a.self); !ok {
		return a.refusals.refuse(p.UID, notAllowed, &Forbidden{
			UID: p.UID, Right: right, Lock: name, Rule: rule, NoRules: len(now.rules) == 0,
		})
	}
	if most := now.limits.NameLen; right == Acquire && most > 0 && len(name) > most {
		return a.refusals.refuse(p.UID, nameTooLong, &lockagent.NameError{
			Name: name, Reason: fmt.Sprintf("it has %d bytes, and the limit of this daemon is %d", len(name), most),
		})
	}
	return nil
}

// Refused counts and tells a refusal of [Access.Quotas], and returns it. What is no [*refusal.QuotaError] is not
// counted.
func (a *Access) Refused(uid uint32, err error) error {
	if quota, ok := errors.AsType[*refusal.QuotaError](err); ok {
		return a.refusals.refuse(uid, quota.What, err)
	}
	return err
}

// Use returns nil if p may use the secret of a claim on a name: it is one of p's own, or p is root or may operate the
// name. Otherwise it counts a refusal, and returns [refusal.ErrNoClaim], as if the secret were wrong.
func (a *Access) Use(p Peer, owner uint32, name string) error {
	if p.UID == owner || p.UID == 0 || a.Sees(p, Operate, name) {
		return nil
	}
	// The error says more than p may know.
	_ = a.refusals.refuse(
		p.UID, notOwner, fmt.Errorf("the secret of a claim of user %d on %.64q was used by user %d", owner, name, p.UID),
	)
	return refusal.ErrNoClaim
}

// Sees is Check without a refusal: for a list that leaves out what p may not look at.
func (a *Access) Sees(p Peer, right Right, name string) bool {
	_, ok := a.policy.Load().allows(p, right, name, a.self)
	return ok
}

// Enter returns nil if there may be names to which p has a right, and else a [*Forbidden]. It is for a place where p
// sees such names.
func (a *Access) Enter(p Peer, right Right) error {
	now := a.policy.Load()
	if len(now.rules) == 0 && (p.UID == a.self || p.UID == 0) ||
		slices.ContainsFunc(now.rules, func(r compiled) bool { return r.isFor(p) && r.allow&right == right }) {
		return nil
	}
	return a.refusals.refuse(p.UID, notAllowed, &Forbidden{UID: p.UID, Right: right, NoRules: len(now.rules) == 0})
}

// allows also returns which rule it is that does not allow it, or 0 if there is none.
func (now *policy) allows(p Peer, right Right, name string, self uint32) (rule int, ok bool) {
	if len(now.rules) == 0 {
		return 0, p.UID == self || p.UID == 0
	}
	for i := range now.rules {
		if r := &now.rules[i]; r.match.may(name) && r.isFor(p) && r.match.Match(name) {
			return i + 1, r.allow&right == right
		}
	}
	return 0, false
}

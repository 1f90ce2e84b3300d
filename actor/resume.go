package actor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// Resume starts an agent that goes on with the locks of another one, which has detached from
// them: see [Agent.Detach]. It has the identity and the holds of that agent, and the tokens
// stay the same. Resume a snapshot once, on the machine that it was taken on. cfg is as for
// [New], but has neither Label nor an ID that is not that of the snapshot. The error is a
// [*lockagent.OptionError] or joins several.
//
// The store is asked whether it still has each tenure. Until it has answered, a hold is trusted
// as far as its lease was confirmed, and nothing is handed off. Holds whose time has passed are
// over. What nobody held is withdrawn. If the machine was booted since, nobody can tell how much
// time has passed: then no hold goes on, and all tenures are withdrawn. On systems other than
// Linux only the wall clock can tell, and must not be set back in between. If it was set forward,
// holds are over early. So an owner must not rely on what the old process told it of a deadline,
// but ask the new one.
//
// [Agent.Resumed] has the grants.
func Resume(cfg Config, from AgentSnapshot) (*Agent, error) {
	if err := from.check(); err != nil {
		return nil, err
	}
	if cfg.ID != "" && cfg.ID != from.Agent {
		return nil, &lockagent.OptionError{Option: "Config.ID", Reason: fmt.Sprintf("%q is not the agent of the snapshot, %q; leave it out", cfg.ID, from.Agent)}
	}
	cfg.ID = from.Agent
	return open(cfg, &from)
}

// ResumedGrant is a hold that goes on from another process.
type ResumedGrant struct {
	Name    lockagent.Name
	Owner   lockagent.Owner
	Token   lockagent.Token
	Lease   time.Duration // the fixed lease that was asked for, or 0 for one that is kept
	Session bool          // Owner may hold the lock several times

	// Grant delivers the grant to whoever claims it, like the channel of [Agent.Acquire]: it
	// has capacity 1, and is closed. If it is closed and delivers nothing, the hold is over.
	Grant <-chan lockagent.Grant
}

// Resumed returns the holds that the agent has resumed, in the order of their locks, the oldest
// first. Claim each by receiving its grant. A grant that nobody claims within Config.Claim is
// given back; until then it blocks others. For an agent of [New] there are none.
func (a *Agent) Resumed() []ResumedGrant { return slices.Clone(a.resumed) }

// load makes the locks of a snapshot and returns their entries, which are pinned. They do
// nothing yet.
func (a *Agent) load(from *AgentSnapshot) []*entry {
	if from == nil {
		return nil
	}
	a.fresh.Store(from.Last)
	now := a.clock.now()
	boot, up := uptime()
	passed, known := from.Taken.passed(time.Now(), boot, up)
	shift := now.Sub(from.Taken.At) - passed
	entries := make([]*entry, 0, len(from.Locks))
	for _, n := range from.Locks {
		if !known {
			n.Grants = nil
		}
		e := a.registry.loaded(n.Name, func(l *lock) { l.load(n, now, shift) })
		entries = append(entries, e)
	}
	return entries
}

// load makes the lock what it was in another process, over whose clock ours is ahead by shift.
// Nobody else knows of the lock yet.
func (l *lock) load(n LockSnapshot, now lockstate.Instant, shift time.Duration) {
	grants := slices.Clone(n.Grants) // they are the caller's
	for i := range grants {
		grants[i].ClaimBy = now - lockstate.Instant(shift-l.agent.cfg.Claim) // on the clock of the snapshot
	}
	n.Grants = grants
	l.state = lockstate.Resume(l.entry.name, l.agent.locks, n.Snapshot, shift, now)
	l.now, l.used, l.tenure = now, now, n.Tenure
	l.deadline.Store(int64(l.state.Deadline()))
	counts := make(map[lockagent.Owner]int)
	for i := range grants {
		g := &grants[i]
		counts[g.Request.Owner]++
		r := &request{
			agent: l.agent, entry: l.entry, caller: context.Background(), out: make(chan lockagent.Grant, 1),
			Request: Request{
				Owner: g.Request.Owner, Lease: g.Request.Lease, Session: g.Request.Session,
				Outlive: slices.Contains(n.Outlive, g.Request.ID),
			},
			id: g.Request.ID, token: g.Token, deadline: &l.deadline,
		}
		if g.Fixed != 0 {
			r.fixed.Store(int64(g.Fixed) + int64(shift))
		}
		l.requests.put(r.id, r)
		l.holds.add(r)
		l.agent.resumed = append(l.agent.resumed, ResumedGrant{
			Name: l.entry.name, Owner: r.Owner, Token: r.token, Lease: r.Lease, Session: r.Session, Grant: r.out,
		})
		r.deliver(lockagent.NewGrant(l.entry.name, r.Owner, r.token, counts[r.Owner], r.hold()))
	}
}

// check looks for what no agent would have written.
func (s *AgentSnapshot) check() error {
	if s.Format != snapshotFormat {
		return bad("format %d is not known here; it was taken by another version, and its locks are free when their leases have run out", s.Format)
	}
	if _, err := lockagent.ParseAgentID(string(s.Agent)); err != nil {
		return err
	}
	if s.Last > lockagent.MaxTenure {
		return bad("number %d is greater than %d", s.Last, uint64(lockagent.MaxTenure))
	}
	for i := range s.Locks {
		if i > 0 && s.Locks[i].Name <= s.Locks[i-1].Name {
			return bad("lock %q is out of order", s.Locks[i].Name)
		}
		if err := s.Locks[i].check(s.Last); err != nil {
			return err
		}
	}
	return nil
}

func (n *LockSnapshot) check(last uint64) error {
	if _, err := lockagent.ParseName(string(n.Name)); err != nil {
		return err
	}
	if n.Tenure > last || n.Tenure == 0 && len(n.Grants) > 0 || n.Mode > lockstate.Shared {
		return bad("lock %q has tenure %d of mode %d with %d grants, the last number is %d", n.Name, n.Tenure, n.Mode, len(n.Grants), last)
	}
	seen := make(map[lockstate.RequestID]bool, len(n.Grants))
	for i := range n.Grants {
		g := &n.Grants[i]
		r := &g.Request
		if _, err := lockagent.ParseOwner(string(r.Owner)); err != nil {
			return err
		}
		if r.Lease != 0 || g.Fixed != 0 {
			if err := lockagent.CheckLease(r.Lease); err != nil {
				return err
			}
		}
		if r.ID == 0 || uint64(r.ID) > last || seen[r.ID] || g.Token == 0 || r.Mode > lockstate.Shared {
			return bad("lock %q has request %d with token %d", n.Name, r.ID, g.Token)
		}
		seen[r.ID] = true
	}
	return nil
}

func bad(format string, args ...any) error {
	return &lockagent.OptionError{Option: "snapshot", Reason: fmt.Sprintf(format, args...)}
}

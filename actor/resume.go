package actor

import (
	"context"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// Resume starts an agent that goes on with the locks of a detached agent: see [Agent.Detach].
// It has the identity, the holds and the tokens of that agent. Resume a snapshot once, on the
// machine where it was taken. cfg is as for [New], but without Label. Its ID is empty or that of
// the snapshot. The error is a [*lockagent.OptionError] or joins several.
//
// [Agent.Resumed] has the grants. The agent asks the store whether it still has each tenure.
// Until the answer, a hold is trusted until its old deadline, and there is no hand-off. Holds
// whose deadline has passed are over. Tenures without a hold are withdrawn.
//
// If the machine was booted since, nobody knows how much time has passed. Then no hold goes
// on, and all tenures are withdrawn.
//
// On systems other than Linux only the wall clock tells how much time has passed, so nobody
// may set it back in between. If somebody set it forward, holds end early. So an owner must ask
// the new process for the deadline, and not rely on what the old one told.
func Resume(cfg Config, from AgentSnapshot) (*Agent, error) {
	if err := from.check(); err != nil {
		return nil, err
	}
	if cfg.ID != "" && cfg.ID != from.Agent {
		return nil, wrongOption("Config.ID", "%q is not the agent of the snapshot, %q; leave it out", cfg.ID, from.Agent)
	}
	cfg.ID = from.Agent
	return open(cfg, &from)
}

// ResumedGrant is a hold that goes on from another process.
type ResumedGrant struct {
	Name    lockagent.Name
	Owner   lockagent.Owner
	Token   lockagent.Token
	Kind    lockagent.LockKind
	Mode    lockagent.Mode
	Permits int           // of a semaphore; 0 is 1
	Lease   time.Duration // the fixed lease of the request, or 0 for a kept lease
	Session bool          // Owner may hold the lock several times

	// Grant delivers the grant, like the channel of [Agent.Acquire]: it has capacity 1, and is
	// closed. If it delivers nothing, the hold is over.
	Grant <-chan lockagent.Grant
}

// Resumed returns the holds that the agent has resumed, in the order of the names of their
// locks, the oldest first. Claim each hold: receive its grant. A grant that nobody claims
// within Config.Claim is given back. Until then it blocks others. An agent of [New] has none.
func (a *Agent) Resumed() []ResumedGrant { return slices.Clone(a.resumed) }

// load makes the locks of a snapshot. It returns their pinned entries. The actors make no
// calls to the store before they get a resumedMsg.
func (a *Agent) load(from *AgentSnapshot) []*entry {
	if from == nil {
		return nil
	}
	a.fresh.Store(from.Last)
	now := a.clock.now()
	passed, known := from.age()
	shift := now.Sub(from.Taken.At) - passed
	entries := make([]*entry, 0, len(from.Locks))
	for _, n := range from.Locks {
		if !known {
			n.Snapshot = n.WithoutHolds()
		}
		e := a.registry.loaded(n.Name, n.Kind.OrPlain(), func(l *lock) { l.load(n, now, shift) })
		entries = append(entries, e)
	}
	return entries
}

// age returns how long ago the snapshot was taken, and false if nobody knows.
func (s *AgentSnapshot) age() (passed time.Duration, known bool) {
	boot, up := uptime()
	return s.Taken.passed(time.Now(), boot, up)
}

// holds returns how many holds an agent of the snapshot goes on with. A session has one hold of a
// lock, however often it was granted the lock. s may be nil.
func (s *AgentSnapshot) holds() (n int) {
	if s == nil {
		return 0
	}
	if _, known := s.age(); !known {
		return 0
	}
	for i := range s.Locks {
		owners := make(map[lockagent.Owner]bool)
		for j := range s.Locks[i].Tenures {
			for k := range s.Locks[i].Tenures[j].Grants {
				owners[s.Locks[i].Tenures[j].Grants[k].Request.Owner] = true
			}
		}
		n += len(owners)
	}
	return n
}

// load restores the lock from a snapshot. shift is as for [lockstate.Resume]. The lock cannot
// be found yet.
func (l *lock) load(n LockSnapshot, now lockstate.Instant, shift time.Duration) {
	tenures := slices.Clone(n.Tenures) // the snapshot stays as it is
	for i := range tenures {
		t := &tenures[i]
		t.Grants = slices.Clone(t.Grants)
		for j := range t.Grants {
			t.Grants[j].ClaimBy = now - lockstate.Instant(shift-l.agent.cfg.Claim) // on the clock of the snapshot
		}
	}
	n.Tenures = tenures
	l.state = l.agent.machines[l.entry.kind](l.entry.name, n.Snapshot, shift, now)
	l.now, l.used = now, now
	counts := make(map[lockagent.Owner]int)
	for i := range tenures {
		for j := range tenures[i].Grants {
			g := &tenures[i].Grants[j]
			counts[g.Request.Owner]++
			l.resume(&n, &tenures[i], g, shift, counts[g.Request.Owner])
		}
	}
}

// resume restores a hold. count is how many grants its owner holds with it.
func (l *lock) resume(n *LockSnapshot, of *lockstate.SavedTenure, g *lockstate.HeldGrant, shift time.Duration, count int) {
	r := &request{
		agent: l.agent, entry: l.entry, caller: context.Background(), out: make(chan lockagent.Grant, 1),
		Request: Request{
			Owner: g.Request.Owner, Kind: l.entry.kind, Mode: modeOf(g.Request.Mode), Permits: g.Request.Permits,
			Lease: g.Request.Lease, Session: g.Request.Session, Outlive: slices.Contains(n.Outlive, g.Request.ID),
		},
		id: g.Request.ID, token: g.Token, tenure: of.Number, replicas: small(of.Replicas),
	}
	r.deadline.Store(int64(l.state.Deadline(of.Number)))
	if g.Fixed != 0 {
		r.fixed.Store(int64(g.Fixed) + int64(shift))
	}
	l.requests.put(r.id, r)
	l.agent.resumed = append(l.agent.resumed, ResumedGrant{
		Name: l.entry.name, Owner: r.Owner, Token: r.token, Kind: r.Kind, Mode: r.Mode, Permits: r.Permits,
		Lease: r.Lease, Session: r.Session, Grant: r.out,
	})
	r.deliver(lockagent.NewGrant(l.entry.name, r.Owner, r.token, count, r.hold()))
}

// check returns an error if no agent could have written the snapshot.
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
	if kind := n.Kind.OrPlain(); !slices.Contains(lockagent.LockKinds(), kind) {
		return bad("lock %q is of the kind %.64q, which this version does not have", n.Name, kind)
	}
	numbers := make(map[uint64]bool, len(n.Tenures))
	seen := make(map[lockstate.RequestID]bool)
	for i := range n.Tenures {
		t := &n.Tenures[i]
		if t.Number == 0 || t.Number > last || numbers[t.Number] || t.Mode > lockstate.Shared {
			return bad("lock %q has tenure %d of mode %d, the last number is %d", n.Name, t.Number, t.Mode, last)
		}
		numbers[t.Number] = true
		for j := range t.Grants {
			g := &t.Grants[j]
			if err := checkGrant(n.Name, g, last); err != nil {
				return err
			}
			if seen[g.Request.ID] {
				return bad("lock %q has request %d twice", n.Name, g.Request.ID)
			}
			seen[g.Request.ID] = true
		}
	}
	return nil
}

func checkGrant(name lockagent.Name, g *lockstate.HeldGrant, last uint64) error {
	r := &g.Request
	if _, err := lockagent.ParseOwner(string(r.Owner)); err != nil {
		return err
	}
	if r.Lease != 0 || g.Fixed != 0 {
		if err := lockagent.CheckLease(r.Lease); err != nil {
			return err
		}
	}
	if r.ID == 0 || uint64(r.ID) > last || g.Token == 0 || r.Mode > lockstate.Shared {
		return bad("lock %q has request %d with token %d", name, r.ID, g.Token)
	}
	return nil
}

func bad(format string, args ...any) error {
	return wrongOption("snapshot", format, args...)
}

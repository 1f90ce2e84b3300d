package actor

import (
	"context"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/bootclock"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// Resume starts an agent that goes on with the locks of another one: of a detached agent, see [Agent.Detach], or of one that
// ended without warning, see [Journal].
// It has the identity, the holds and the tokens of that agent. Resume a snapshot once, on the
// machine where it was taken. cfg is as for [New], but without Label. Its ID is empty or that of
// the snapshot. The error is a [*lockagent.OptionError] or joins several.
//
// [Agent.Resumed] has the grants. The agent asks the store whether it still has each tenure.
// Until the answer, a hold is trusted until its old deadline, and there is no hand-off. Holds
// whose deadline has passed are over: if the snapshot is of a journal that may have missed renewals, call [AgentSnapshot.Confirm] before. Requests that waited go on to wait, for no longer than before, and keep their places in
// the agent's queue and in the store's. Tenures that nobody holds or waits for are withdrawn.
//
// If the machine was booted since, nobody knows how much time has passed. Then no hold and no
// request goes on, and all tenures are withdrawn.
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

// ResumedGrant is a hold that goes on from another process, or a request that goes on to wait.
type ResumedGrant struct {
	Name    lockagent.Name
	Owner   lockagent.Owner
	Token   lockagent.Token
	Kind    lockagent.LockKind
	Mode    lockagent.Mode
	Permits int           // of a semaphore; 0 is 1
	Lease   time.Duration // the fixed lease of the request, or 0 for a kept lease
	Session bool          // Owner may hold the lock several times
	Tag     string        // of the request
	Waits   bool          // it has not been granted yet, and has no token
	For     time.Duration // since it was granted or, if it waits, asked for

	// Remaining is for how long a hold can be trusted, as far as the owner knows: no renewal since then counts.
	Remaining time.Duration

	// Grant delivers the grant, like the channel of [Agent.Acquire]: it has capacity 1, and the agent closes it. That of a hold
	// is closed already. If it delivers nothing, the hold is over. To end a wait, call [Agent.Leave].
	Grant <-chan lockagent.Grant
}

// Resumed returns the holds that the agent has resumed, in the order of the names of their
// locks, the oldest first. The requests that wait come after the holds of their lock. Claim each hold: receive its grant. A grant that nobody claims
// within Config.Claim is given back. Until then it blocks others. An agent of [New] has none.
func (a *Agent) Resumed() []ResumedGrant { return slices.Clone(a.resumed) }

// load makes the locks of a snapshot. It returns a message for each. The actors make no
// calls to the store before they get it.
func (a *Agent) load(from *AgentSnapshot) []*resumedMsg {
	if from == nil {
		a.journaled(nil)
		return nil
	}
	now := a.clock.now()
	passed, known := from.age()
	shift := now.Sub(from.Taken.At) - passed
	messages := make([]*resumedMsg, 0, len(from.Locks))
	var locks []LockSnapshot // for the journal
	for _, n := range from.Locks {
		if !known {
			n.Snapshot = n.WithoutHolds()
		}
		m := &resumedMsg{callers: make(map[*request]context.Context)}
		m.entry = a.registry.loaded(n.Name, n.Kind.OrPlain(), func(l *lock) {
			l.load(n, m.callers, now, shift)
			for _, w := range n.Waiting {
				w.Request.Arrived += lockstate.Instant(shift)
				m.waits = append(m.waits, w.Request)
			}
			if l.scribe != nil {
				l.scribe.floor = l.state.Floor()
				locks = append(locks, l.saved())
			}
		})
		messages = append(messages, m)
	}
	a.journaled(locks)
	return messages
}

// age returns how long ago the snapshot was taken, and false if nobody knows.
func (s *AgentSnapshot) age() (passed time.Duration, known bool) {
	return s.Taken.passed(time.Now(), bootclock.ID(), bootclock.Now())
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
func (l *lock) load(n LockSnapshot, callers map[*request]context.Context, now lockstate.Instant, shift time.Duration) {
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
	counts, all := make(map[lockagent.Owner]int), n.noted()
	for i := range tenures {
		for j := range tenures[i].Grants {
			g := &tenures[i].Grants[j]
			counts[g.Request.Owner]++
			l.resume(&tenures[i], g, all[g.Request.ID], callers, shift, counts[g.Request.Owner])
		}
	}
	for i := range n.Waiting {
		of := &n.Waiting[i].Request
		x := all[of.ID]
		r, listed := l.resumed(of, x)
		if x.until != 0 {
			r.waitUntil = x.until + lockstate.Instant(shift)
		}
		listed.For = l.now.Sub(of.Arrived + lockstate.Instant(shift))
		r.watchResumed(listed, callers)
	}
}

// goOn begins the work of a lock that was loaded.
func (l *lock) goOn(m *resumedMsg) {
	for r := range l.requests.all {
		switch caller := m.callers[r]; {
		case caller != nil && (!r.granted() || r.lies()): // a message of the store may have come first
			r.caller = caller
			r.watch()
		case !r.granted():
			r.watch()
		}
	}
	for i := range m.waits { // the log of this process says who waits
		if r := l.requests.get(m.waits[i].ID); r != nil && !r.granted() {
			l.publish(r, &lockstate.Event{Kind: lockstate.Queued, Now: l.now, Request: m.waits[i], Waiters: i + 1})
		}
	}
	l.step(lockstate.Tick{})
}

// watchResumed has somebody learn what becomes of a request that was restored.
func (r *request) watchResumed(listed *ResumedGrant, callers map[*request]context.Context) {
	if ask := r.agent.cfg.Resumed; ask != nil {
		r.agent.callback("Config.Resumed", func() {
			callers[r], r.Watch = ask(*listed)
		})
	}
}

// resumed restores a request that waits or holds, and lists it.
func (l *lock) resumed(of *lockstate.Request, x noted) (*request, *ResumedGrant) {
	r := &request{
		agent: l.agent, entry: l.entry, caller: context.Background(), out: make(chan lockagent.Grant, 1),
		Request: Request{
			Owner: of.Owner, Kind: l.entry.kind, Mode: modeOf(of.Mode), Permits: of.Permits,
			Lease: of.Lease, Session: of.Session, Try: of.Try, Outlive: of.Outlive, Tag: x.tag,
		},
		id: of.ID,
	}
	l.requests.put(r.id, r)
	l.agent.resumed = append(l.agent.resumed, ResumedGrant{
		Name: l.entry.name, Owner: r.Owner, Kind: r.Kind, Mode: r.Mode, Permits: r.Permits,
		Lease: r.Lease, Session: r.Session, Tag: r.Tag, Waits: true, Grant: r.out,
	})
	return r, &l.agent.resumed[len(l.agent.resumed)-1]
}

// resume restores a hold. count is how many grants its owner holds with it.
func (l *lock) resume(of *lockstate.SavedTenure, g *lockstate.HeldGrant, x noted, callers map[*request]context.Context, shift time.Duration, count int) {
	r, listed := l.resumed(&g.Request, x)
	listed.Token, listed.Waits = g.Token, false
	r.token, r.tenure, r.replicas = g.Token, of.Number, small(of.Replicas)
	r.deadline.Store(int64(l.state.Deadline(of.Number)))
	if g.Fixed != 0 {
		r.fixed.Store(int64(g.Fixed) + int64(shift))
	}
	listed.For, listed.Remaining = l.now.Sub(g.Since+lockstate.Instant(shift)), r.Remaining()
	r.watchResumed(listed, callers)
	r.deliver(l.entry.name, outcome{hold: r.hold(), count: count})
}

// check returns an error if no agent could have written the snapshot.
func (s *AgentSnapshot) check() error {
	if s.Format != detachFormat && s.Format != snapshotFormat {
		return bad("format %d is not known here; it was taken by another version, and its locks are free when their leases have run out", s.Format)
	}
	if _, err := lockagent.ParseAgentID(string(s.Agent)); err != nil {
		return err
	}
	if s.Last > lockagent.MaxTenure {
		return bad("number %d is greater than %d", s.Last, uint64(lockagent.MaxTenure))
	}
	if s.First > s.Last {
		return bad("the numbers are above %d, and the last one is %d", s.First, s.Last)
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
	numbers, parts := make(map[uint64]bool, len(n.Tenures)), make(map[uint64]bool)
	seen := make(map[lockstate.RequestID]bool)
	if len(n.Waiting) > 0 && n.Kind == lockagent.Latch {
		return bad("latch %q has requests that wait", n.Name)
	}
	for i := range n.Waiting {
		r := &n.Waiting[i].Request
		if err := checkRequest(n.Name, r, last); err != nil {
			return err
		}
		if seen[r.ID] {
			return bad("lock %q has request %d twice", n.Name, r.ID)
		}
		seen[r.ID] = true
	}
	for i := range n.Tenures {
		t := &n.Tenures[i]
		if t.Number == 0 || t.Number > last || numbers[t.Number] || t.Mode > lockstate.Shared {
			return bad("lock %q has tenure %d of mode %d, the last number is %d", n.Name, t.Number, t.Mode, last)
		}
		if t.Part != 0 && parts[t.Part] || t.Asks && len(t.Grants) > 0 {
			return bad("lock %q has tenure %d, which asks for what is there", n.Name, t.Number)
		}
		numbers[t.Number], parts[t.Part] = true, true
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
	if g.Token == 0 || (g.Fixed != 0 || g.Own != 0) && g.Request.Lease == 0 {
		return bad("lock %q has request %d with token %d, until %d", name, g.Request.ID, g.Token, g.Fixed)
	}
	return checkRequest(name, &g.Request, last)
}

func checkRequest(name lockagent.Name, r *lockstate.Request, last uint64) error {
	if _, err := lockagent.ParseOwner(string(r.Owner)); err != nil {
		return err
	}
	if r.Lease != 0 {
		if err := lockagent.CheckLease(r.Lease); err != nil {
			return err
		}
	}
	if r.ID == 0 || uint64(r.ID) > last || r.Mode > lockstate.Shared {
		return bad("lock %q has request %d of mode %d", name, r.ID, r.Mode)
	}
	return nil
}

func bad(format string, args ...any) error {
	return wrongOption("snapshot", format, args...)
}

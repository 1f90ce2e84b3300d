package webui

import (
	"cmp"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// lockRow is a lock in a list, or all locks below a prefix.
type lockRow struct {
	Name    string
	Store   string // that has the lock, if another one has a lock of that name as well; only of the fleet
	Locks   int    // that the row stands for, if its name is a prefix; else 0
	Kind    string
	State   state
	Holder  *claimRow // the oldest, or nil
	Held    int
	Waiting int
	Longest *claimRow // who has waited longest, or nil
}

// Others is how many holders there are beside Holder.
func (r *lockRow) Others() int { return r.Held - 1 }

// since is when the oldest hold began, or the longest wait.
func (r *lockRow) since() time.Time {
	switch {
	case r.Holder != nil:
		return r.Holder.Since
	case r.Longest != nil:
		return r.Longest.Since
	}
	return time.Time{}
}

// claimRow is a claim in a list.
type claimRow struct {
	ID       string
	State    state
	Program  string
	PID      int32 // 0 if no process is behind the claim any more
	Command  string
	User     string
	Host     string // of a claim of the fleet
	Token    uint64
	Shared   bool
	Permits  int32
	Detached bool
	ForPID   int32     // the process that the claim ends with, or 0
	Expires  time.Time // when the claim ends unless somebody renews it, or zero
	Labels   map[string]string
	Since    time.Time
	Left     time.Duration
	Lease    time.Duration // the full length of the bar
}

// Age is for how long it has been held, or waited for.
func (c *claimRow) Age() time.Duration { return max(0, time.Since(c.Since)) }

// Headline says what is done under the claim.
func (c *claimRow) Headline() string { return orNone(cmp.Or(c.Command, c.Program)) }

// By says who does it: the program unless the headline names it, its process, its user and its host.
func (c *claimRow) By() string {
	var all []string
	first, _, _ := strings.Cut(c.Command, " ")
	if c.Command != "" && c.Program != "" && path.Base(first) != c.Program {
		all = append(all, c.Program)
	}
	if c.PID != 0 {
		all = append(all, strconv.Itoa(int(c.PID)))
	}
	who := c.User
	if c.Host != "" {
		who += "@" + c.Host
	}
	return strings.Join(append(all, who), " · ")
}

// state is that of a claim, or of a lock: the word for it.
type state string

// The states. A lock has that of its holder that is worst off.
const (
	stateFree      state = "free"
	stateWaiting   state = "waiting"
	stateHeld      state = "held"
	stateUncertain state = "uncertain"
	stateResumed   state = "resumed"
	stateElsewhere state = "held elsewhere"
	stateSilent    state = "silent" // only of the fleet: nothing is heard of the holder's agent
)

var states = map[lockagentv1.State]state{
	lockagentv1.State_STATE_WAITING:   stateWaiting,
	lockagentv1.State_STATE_HELD:      stateHeld,
	lockagentv1.State_STATE_UNCERTAIN: stateUncertain,
	lockagentv1.State_STATE_RESUMED:   stateResumed,
}

// badness puts the states in order: a lock, or a prefix, has the state that is worst.
var badness = map[state]int{
	stateFree: 0, stateWaiting: 1, stateHeld: 2, stateElsewhere: 2, stateResumed: 3, stateSilent: 4, stateUncertain: 5,
}

func worse(a, b state) state {
	if badness[b] > badness[a] {
		return b
	}
	return a
}

// Class is the state as a style has it.
func (s state) Class() string {
	if s == stateElsewhere {
		s = stateHeld
	}
	return string(s)
}

// kindText is empty for a plain lock.
func kindText(k lockagentv1.Kind) string {
	if k == lockagentv1.Kind_KIND_UNSPECIFIED || k == lockagentv1.Kind_KIND_PLAIN {
		return ""
	}
	return string(wire.ToKind(k))
}

func (p *page) lockRow(l *lockagentv1.Lock) lockRow {
	row := lockRow{
		Name: l.GetName(), Kind: kindText(l.GetKind()), State: stateFree, Held: int(l.GetHeld()),
		Waiting: int(l.GetWaiting()),
	}
	if row.Waiting > 0 {
		row.State = stateWaiting
	}
	for _, c := range l.GetHolders() {
		row.State = worse(row.State, states[c.GetState()])
	}
	if holders := l.GetHolders(); len(holders) > 0 {
		c := p.claimRow(holders[0])
		row.Holder = &c
	}
	if waiters := l.GetWaiters(); len(waiters) > 0 {
		c := p.claimRow(waiters[0])
		row.Longest = &c
	}
	return row
}

func (p *page) claimRows(claims []*lockagentv1.Claim) []claimRow {
	rows := make([]claimRow, len(claims))
	for i, c := range claims {
		rows[i] = p.claimRow(c)
	}
	return rows
}

func (p *page) claimRow(c *lockagentv1.Claim) claimRow {
	of := c.GetClient()
	row := claimRow{
		ID: c.GetClaim(), State: states[c.GetState()], Program: of.GetProgram(), PID: of.GetPid(),
		Command: c.GetCommand(), User: of.GetUser(), Token: c.GetToken(),
		Shared: c.GetMode() == lockagentv1.Mode_MODE_SHARED, Permits: c.GetPermits(),
		Detached: c.GetDetached(), ForPID: c.GetForPid(), Labels: c.GetLabels(),
		Since: c.GetSince().AsTime(), Left: c.GetLeft().AsDuration(),
	}
	if c.GetExpires() != nil {
		row.Expires = c.GetExpires().AsTime()
	}
	switch pids := c.GetPids(); {
	case row.Detached: // whoever asked for it has ended
		row.PID = row.ForPID
	case len(pids) > 0:
		row.PID = pids[0] // it does the work
	}
	row.Lease = max(p.Lease, row.Left)
	if row.User == "" {
		row.User = "user " + strconv.FormatUint(uint64(of.GetUid()), 10)
	}
	return row
}

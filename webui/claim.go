package webui

import (
	"strconv"
	"time"

	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// lockRow is a lock in a list.
type lockRow struct {
	Name    string
	Kind    string
	State   state
	Holder  *claimRow // the oldest, or nil
	Others  int       // holders beside it
	Waiting int
	Longest *claimRow // who has waited longest, or nil
}

// claimRow is a claim in a list.
type claimRow struct {
	ID       string
	State    state
	Program  string
	PID      int32
	Command  string
	User     string
	Token    uint64
	Shared   bool
	Permits  int32
	Detached bool
	Session  string
	Labels   map[string]string
	Since    time.Time
	Age      time.Duration
	Left     time.Duration
	Lease    time.Duration // the full length of the bar
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
)

var states = map[lockagentv1.State]state{
	lockagentv1.State_STATE_WAITING:   stateWaiting,
	lockagentv1.State_STATE_HELD:      stateHeld,
	lockagentv1.State_STATE_UNCERTAIN: stateUncertain,
	lockagentv1.State_STATE_RESUMED:   stateResumed,
}

// Class is the state as a style has it.
func (s state) Class() string {
	if s == stateElsewhere {
		return "held"
	}
	return string(s)
}

// Kind is empty for a plain lock.
func kindText(k lockagentv1.Kind) string {
	if k == lockagentv1.Kind_KIND_UNSPECIFIED || k == lockagentv1.Kind_KIND_PLAIN {
		return ""
	}
	return string(wire.ToKind(k))
}

func (p *page) lockRow(l *lockagentv1.Lock, now time.Time) lockRow {
	row := lockRow{Name: l.GetName(), Kind: kindText(l.GetKind()), State: stateOf(l), Waiting: int(l.GetWaiting())}
	if holders := l.GetHolders(); len(holders) > 0 {
		c := p.claimRow(holders[0], now)
		row.Holder, row.Others = &c, int(l.GetHeld())-1
	}
	if waiters := l.GetWaiters(); len(waiters) > 0 {
		c := p.claimRow(waiters[0], now)
		row.Longest = &c
	}
	return row
}

// stateOf is the state of a lock.
func stateOf(l *lockagentv1.Lock) state {
	is := stateFree
	if l.GetWaiting() > 0 {
		is = stateWaiting
	}
	for _, c := range l.GetHolders() {
		switch s := states[c.GetState()]; {
		case s == stateUncertain:
			return s
		case is != stateResumed:
			is = s
		}
	}
	return is
}

func (p *page) claimRows(claims []*lockagentv1.Claim, now time.Time) []claimRow {
	rows := make([]claimRow, len(claims))
	for i, c := range claims {
		rows[i] = p.claimRow(c, now)
	}
	return rows
}

func (p *page) claimRow(c *lockagentv1.Claim, now time.Time) claimRow {
	of := c.GetClient()
	row := claimRow{
		ID: c.GetClaim(), State: states[c.GetState()], Program: of.GetProgram(), PID: of.GetPid(), Command: c.GetCommand(), User: of.GetUser(),
		Token: c.GetToken(), Shared: c.GetMode() == lockagentv1.Mode_MODE_SHARED, Permits: c.GetPermits(), Detached: c.GetDetached(),
		Session: c.GetSession(), Labels: c.GetLabels(), Since: c.GetSince().AsTime(), Left: c.GetLeft().AsDuration(),
	}
	row.Age = max(0, now.Sub(row.Since))
	row.Lease = max(p.Lease, row.Left)
	if row.User == "" {
		row.User = "user " + strconv.FormatUint(uint64(of.GetUid()), 10)
	}
	return row
}

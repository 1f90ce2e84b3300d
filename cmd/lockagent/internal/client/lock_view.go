//go:build linux

package client

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// LockView is a lock as JSON. Fields are only added.
type LockView struct {
	Name    lockagent.Name     `json:"name"`
	Kind    lockagent.LockKind `json:"kind"`
	Held    int32              `json:"held"`
	Waiting int32              `json:"waiting"`
	Holders []ClaimView        `json:"holders"`
	Waiters []ClaimView        `json:"waiters"`
}

// ClaimView is a claim as JSON.
type ClaimView struct {
	Claim    string            `json:"claim"`
	State    string            `json:"state"`
	Shared   bool              `json:"shared,omitempty"`
	Permits  int32             `json:"permits,omitempty"`
	Token    uint64            `json:"token,omitempty"`
	PID      int32             `json:"pid"`
	PIDs     []int32           `json:"pids,omitempty"`
	UID      uint32            `json:"uid"`
	User     string            `json:"user,omitempty"`
	Program  string            `json:"program,omitempty"`
	Command  string            `json:"command,omitempty"`
	Since    time.Time         `json:"since"`
	LeftMS   int64             `json:"left_ms,omitempty"`
	Expires  time.Time         `json:"expires,omitzero"`
	Detached bool              `json:"detached,omitempty"`
	ForPID   int32             `json:"for_pid,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
}

// StateNames are the states of a claim, for people and as JSON.
var StateNames = map[lockagentv1.State]string{
	lockagentv1.State_STATE_WAITING: "waiting", lockagentv1.State_STATE_HELD: "held",
	lockagentv1.State_STATE_UNCERTAIN: "uncertain", lockagentv1.State_STATE_RESUMED: "resumed",
}

// ViewOf is a lock as the daemon tells of it.
func ViewOf(l *lockagentv1.Lock) LockView {
	views := func(claims []*lockagentv1.Claim) []ClaimView {
		all := make([]ClaimView, len(claims)) // rather than null
		for i, c := range claims {
			all[i] = ClaimView{
				Claim: c.GetClaim(), State: StateNames[c.GetState()], Shared: c.GetMode() == lockagentv1.Mode_MODE_SHARED,
				Permits: c.GetPermits(), Token: c.GetToken(), PID: c.GetClient().GetPid(), PIDs: c.GetPids(),
				UID: c.GetClient().GetUid(), User: c.GetClient().GetUser(),
				Program: c.GetClient().GetProgram(), Command: c.GetCommand(), Since: c.GetSince().AsTime(),
				LeftMS: c.GetLeft().AsDuration().Milliseconds(), Detached: c.GetDetached(), ForPID: c.GetForPid(),
				Labels: c.GetLabels(),
			}
			if c.GetExpires() != nil {
				all[i].Expires = c.GetExpires().AsTime()
			}
		}
		return all
	}
	return LockView{
		Name: lockagent.Name(l.GetName()), Kind: wire.ToKind(l.GetKind()), Held: l.GetHeld(), Waiting: l.GetWaiting(),
		Holders: views(l.GetHolders()), Waiters: views(l.GetWaiters()),
	}
}

// Whose says whose a claim is, for people.
func (c *ClaimView) Whose() string {
	pid := c.PID
	switch {
	case c.Detached: // the process that made the claim may have ended
		pid = c.ForPID
	case len(c.PIDs) > 0:
		pid = c.PIDs[0] // it does the work
	}
	text := lockagent.Process{Program: c.Program, PID: int(pid), User: c.User}.String()
	if c.Command != "" && c.Command != c.Program {
		text += ": " + c.Command
	}
	return text
}

// Left says for people how long the claim lasts. What the daemon renews for its program lasts as long as the program,
// and has what is left of its lease.
func (c *ClaimView) Left(now time.Time) string {
	var ends []string
	if !c.Expires.IsZero() {
		ends = append(ends, readable.Duration(c.Expires.Sub(now)))
	}
	if c.ForPID != 0 {
		ends = append(ends, fmt.Sprintf("until %d ends", c.ForPID))
	}
	if len(ends) == 0 && c.LeftMS != 0 {
		return readable.Duration(time.Duration(c.LeftMS) * time.Millisecond)
	}
	return strings.Join(ends, ", or ")
}

// Holder says for people who holds a lock that somebody holds.
func (v *LockView) Holder() string {
	text := v.Holders[0].Whose()
	if v.Held > 1 {
		text += fmt.Sprintf(" and %d more", v.Held-1)
	}
	return text
}

// TokenText is the token for people. A claim that waits has none, nor has one whose client has not received its grant
// yet.
func (c *ClaimView) TokenText() string {
	if c.Token == 0 {
		return ""
	}
	return fmt.Sprint(c.Token)
}

//go:build linux

package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
	"github.com/lockagent/lockagent/internal/daemon/wire"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// lockView is a lock as JSON. Fields are only added.
type lockView struct {
	Name    lockagent.Name     `json:"name"`
	Kind    lockagent.LockKind `json:"kind"`
	Held    int32              `json:"held"`
	Waiting int32              `json:"waiting"`
	Holders []claimView        `json:"holders"`
	Waiters []claimView        `json:"waiters"`
}

// claimView is a claim as JSON.
type claimView struct {
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
	Detached bool              `json:"detached,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
}

var stateNames = map[lockagentv1.State]string{
	lockagentv1.State_STATE_WAITING: "waiting", lockagentv1.State_STATE_HELD: "held",
	lockagentv1.State_STATE_UNCERTAIN: "uncertain", lockagentv1.State_STATE_RESUMED: "resumed",
}

func viewOf(l *lockagentv1.Lock) lockView {
	views := func(claims []*lockagentv1.Claim) []claimView {
		all := make([]claimView, len(claims)) // rather than null
		for i, c := range claims {
			all[i] = claimView{
				Claim: c.GetClaim(), State: stateNames[c.GetState()], Shared: c.GetMode() == lockagentv1.Mode_MODE_SHARED, Permits: c.GetPermits(),
				Token: c.GetToken(), PID: c.GetClient().GetPid(), PIDs: c.GetPids(),
				UID: c.GetClient().GetUid(), User: c.GetClient().GetUser(),
				Program: c.GetClient().GetProgram(), Command: c.GetCommand(), Since: c.GetSince().AsTime(),
				LeftMS: c.GetLeft().AsDuration().Milliseconds(), Detached: c.GetDetached(), Labels: c.GetLabels(),
			}
		}
		return all
	}
	return lockView{
		Name: lockagent.Name(l.GetName()), Kind: wire.ToKind(l.GetKind()), Held: l.GetHeld(), Waiting: l.GetWaiting(),
		Holders: views(l.GetHolders()), Waiters: views(l.GetWaiters()),
	}
}

// whose says whose a claim is, for people.
func (c *claimView) whose() string {
	pid := c.PID
	if len(c.PIDs) > 0 {
		pid = c.PIDs[0] // it does the work
	}
	text := lockagent.Process{Program: c.Program, PID: int(pid), User: c.User}.String()
	if c.Command != "" && c.Command != c.Program {
		text += ": " + c.Command
	}
	return text
}

// holder says for people who holds a lock that somebody holds.
func (v *lockView) holder() string {
	text := v.Holders[0].whose()
	if v.Held > 1 {
		text += fmt.Sprintf(" and %d more", v.Held-1)
	}
	return text
}

// token is the token for people. A claim that waits has none, nor has one whose client has not received its grant yet.
func (c *claimView) token() string {
	if c.Token == 0 {
		return ""
	}
	return fmt.Sprint(c.Token)
}

// row has the oldest holder of a lock; who is without one has the oldest waiter.
func (v *lockView) row(now time.Time) row {
	cells := []string{string(v.Name), string(v.Kind), "", "", "", fmt.Sprint(v.Waiting), ""}
	if len(v.Holders) > 0 {
		h := &v.Holders[0]
		cells[2], cells[3], cells[4], cells[6] = h.State, h.token(), readable.Duration(now.Sub(h.Since)), v.holder()
	} else {
		cells[2] = "waiting"
		if v.Waiting == 0 {
			cells[2] = "free"
		}
	}
	return row{cells, v}
}

var lockColumns = []string{"LOCK", "KIND", "STATE", "TOKEN", "FOR", "WAITING", "HOLDER"}

func newLs() *cobra.Command {
	var f daemonFlag
	var format listFlag
	cmd := &cobra.Command{
		Use:   "ls [PATTERN]",
		Short: "List the locks that programs of this host hold or wait for",
		Long: `List the locks that programs of this host hold or wait for. In a pattern * stands for any text
without a slash, and ** for any text.`,
		Example:    "  lockagent ls\n  lockagent ls 'orders/*' --format json",
		SuggestFor: []string{"list", "locks", "ps"},
		Args:       cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			pattern, err := patternOf(cmd, args)
			if err == nil {
				err = format.check(cmd)
			}
			if err != nil {
				return err
			}
			daemon, err := f.open(cmd)
			if err != nil {
				return err
			}
			defer daemon.close()
			now, l := time.Now(), list{name: "locks", columns: lockColumns}
			err = daemon.list(cmd.Context(), &lockagentv1.ListRequest{Pattern: pattern}, func(m *lockagentv1.Lock) bool {
				v := viewOf(m)
				l.rows = append(l.rows, v.row(now))
				return true
			})
			if err != nil {
				return err
			}
			return format.write(cmd, l)
		},
	}
	format.add(cmd)
	f.add(cmd)
	return cmd
}

// patternOf is the pattern of a verb that takes one or none.
func patternOf(cmd *cobra.Command, args []string) (string, error) {
	switch len(args) {
	case 0:
		return "", nil
	case 1:
		return args[0], nil
	}
	return "", usage(cmd.CommandPath()+" 'orders/*'"+places(cmd.Flags()), "%q takes one pattern, in quotes", cmd.CommandPath())
}

func newShow() *cobra.Command {
	var f daemonFlag
	var format listFlag
	var kind kindFlag
	cmd := &cobra.Command{
		Use:               "show NAME",
		Short:             "Show who holds one lock, and who waits for it",
		Long:              "Show who holds one lock, and who waits for it: the programs of this host, and the holder as the store tells it.",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeLockOnce,
		RunE: aboutLock(func(cmd *cobra.Command, name lockagent.Name) error {
			if err := format.check(cmd); err != nil {
				return err
			}
			daemon, err := f.open(cmd)
			if err != nil {
				return err
			}
			defer daemon.close()
			var got *lockagentv1.GetResponse
			err = daemon.ofKind(cmd.Context(), name, kind, func(is lockagentv1.Kind) (err error) {
				got, err = daemon.look.Get(cmd.Context(), &lockagentv1.GetRequest{Name: string(name), Kind: is})
				return err
			})
			if err != nil {
				return err
			}
			v := viewOf(got.GetLock())
			l := list{name: "claims", columns: []string{"STATE", "TOKEN", "FOR", "LEFT", "USER", "WHO"}}
			for _, c := range append(v.Holders, v.Waiters...) {
				left := ""
				if c.LeftMS != 0 {
					left = readable.Duration(time.Duration(c.LeftMS) * time.Millisecond)
				}
				l.rows = append(l.rows, row{[]string{c.State, c.token(), readable.Duration(time.Since(c.Since)), left, c.User, c.whose()}, c})
			}
			if got.GetHeld() && v.Held == 0 {
				l.rows = append(l.rows, row{
					[]string{"held", "", "", readable.Duration(got.GetRemaining().AsDuration()), "", "on another host: " + got.GetHolder()},
					map[string]any{"state": "held elsewhere", "holder": got.GetHolder(), "left_ms": got.GetRemaining().AsDuration().Milliseconds()},
				})
			}
			if got.GetResting() {
				l.rows = append(l.rows, row{[]string{"resting", "", "", "", "", "nobody: this daemon keeps it for a moment"}, map[string]any{"state": "resting"}})
			}
			return format.write(cmd, l)
		}),
	}
	kind.add(cmd)
	format.add(cmd)
	f.add(cmd)
	return cmd
}

package eventscmd

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/eventtext"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
	"github.com/lockagent/lockagent/events/fold"
)

// past shows who held which lock from since until then, and who waited.
func (f *holdersFlags) past(cmd *cobra.Command, since, until time.Time) error {
	then := lockThen{name: lockagent.Name(f.lock), since: since, until: until}
	told := newStory(then.name, then.keep)
	told.gaveUp = then.gaveUp
	if err := told.read(cmd, &f.source); err != nil {
		return err
	}
	then.finish(told)
	if f.format == "json" {
		return cli.WriteJSON(cmd.OutOrStdout(), then.holdersView())
	}
	_, err := io.WriteString(cmd.OutOrStdout(), then.holdersText(time.Now()))
	return err
}

// holdersView is the JSON of all holders and waiters then.
func (s *lockThen) holdersView() HoldersView {
	v := HoldersView{
		Version: cli.JSONVersion, Since: s.since, Until: s.until, Holds: []heldView{}, Waiting: []waitView{},
		Waiters: len(s.waiters),
	}
	if s.moment() {
		v.At, v.Since, v.Until = s.until, time.Time{}, time.Time{}
	}
	waiters := make(map[lockagent.Name]int)
	for i := range s.waiters {
		waiters[s.waiters[i].lock]++
	}
	for i := range s.holders {
		h := &s.holders[i]
		v.Holds = append(v.Holds, heldView{Hold: h.Hold, Seen: h.seen, Waiters: waiters[h.Hold.Lock]})
	}
	for i := range s.waiters {
		w := &s.waiters[i]
		wait := waitView{
			Lock: w.lock, Waiter: fold.Waiter{Agent: w.Agent, Owner: w.Owner, Who: w.Who, Since: w.Since, Behind: w.Behind},
			Process: w.Process, BecameOf: w.BecameOf,
		}
		if w.Until != nil {
			wait.Until = *w.Until
		}
		v.Waiting = append(v.Waiting, wait)
	}
	return v
}

// holdersText is as HoldersView, for people.
func (s *lockThen) holdersText(now time.Time) string {
	text := "nobody held a lock" + s.when(now)
	if len(s.holders) > 0 {
		rows := cli.NewTable("LOCK", "OWNER", "SINCE", "UNTIL", "FOR", "TOKEN", "ENDED", "AGENT")
		for i := range s.holders {
			h := &s.holders[i]
			until := ""
			if !h.Until.IsZero() {
				until = readable.Time(h.Until, now)
			}
			rows.Add(
				string(h.Lock), fold.WhoText(h.Who, h.Owner, h.Agent, h.Process), readable.Time(h.From, now), until, h.lasted(now),
				fmt.Sprint(h.Token), h.ended(now), fold.AgentText(h.Agent, h.Process),
			)
		}
		text = rows.String() + "\n" + readable.Counted(len(s.holders), "hold", "holds") + s.when(now)
	}
	text += fmt.Sprintf(", %s\n", readable.Counted(len(s.waiters), "request waited", "requests waited"))
	if len(s.waiters) == 0 {
		return text
	}
	rows := cli.NewTable("LOCK", "OWNER", "WAITED SINCE", "UNTIL", "BEHIND", "BECAME OF IT", "AGENT")
	for i := range s.waiters {
		w := &s.waiters[i]
		until, behind, process := "", "", fold.Process{}
		if w.Until != nil {
			until = readable.Time(*w.Until, now)
		}
		if w.Behind != nil {
			behind = eventtext.PartyText(*w.Behind)
		}
		if w.Process != nil {
			process = *w.Process
		}
		rows.Add(
			string(w.lock), fold.WhoText(w.Who, w.Owner, w.Agent, process), readable.Time(w.Since, now), until, behind,
			w.BecameOf, fold.AgentText(w.Agent, process),
		)
	}
	return text + "\n" + rows.String()
}

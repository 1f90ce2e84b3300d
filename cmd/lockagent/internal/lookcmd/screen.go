//go:build linux

package lookcmd

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/client"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// screen is what top shows. It draws, and knows no terminal.
type screen struct {
	socket string
	locks  map[lockagent.Name]client.LockView
	order  int       // of orders
	gone   error     // why nobody tells of changes; nil if somebody does
	since  time.Time // when that began
}

// orders are how the locks can be sorted.
var orders = []struct {
	by      string
	compare func(a, b *client.LockView) int
}{
	{"waiters", func(a, b *client.LockView) int { return cmp.Compare(b.Waiting, a.Waiting) }},
	{"age", func(a, b *client.LockView) int { return began(a).Compare(began(b)) }},
	{"name", func(_, _ *client.LockView) int { return 0 }},
}

// began is when the oldest claim began, of those who hold the lock if there are any.
func began(v *client.LockView) (first time.Time) {
	claims := v.Holders
	if len(claims) == 0 {
		claims = v.Waiters
	}
	for _, c := range claims {
		if first.IsZero() || c.Since.Before(first) {
			first = c.Since
		}
	}
	return first
}

// hear notes what the daemon tells.
func (s *screen) hear(e *lockagentv1.WatchEvent) {
	switch l := e.GetLock(); {
	case e.GetReset_() != nil:
		clear(s.locks)
	case l == nil:
	case l.GetHeld()+l.GetWaiting() == 0:
		delete(s.locks, lockagent.Name(l.GetName()))
	default:
		s.locks[lockagent.Name(l.GetName())] = client.ViewOf(l)
	}
}

// sorted are the locks as they are shown.
func (s *screen) sorted() []client.LockView {
	return slices.SortedFunc(maps.Values(s.locks), func(a, b client.LockView) int {
		return cmp.Or(orders[s.order].compare(&a, &b), cmp.Compare(a.Name, b.Name))
	})
}

// list are the locks for a reader that is no terminal.
func (s *screen) list(now time.Time) cli.List {
	l := cli.List{Name: "locks", Columns: lockColumns}
	for _, v := range s.sorted() {
		l.Rows = append(l.Rows, rowOf(&v, now))
	}
	return l
}

// draw returns the lines of a terminal of a size.
func (s *screen) draw(width, height int, now time.Time) []string {
	var held, waiting, doubtful int
	for _, v := range s.locks {
		held += int(v.Held)
		waiting += int(v.Waiting)
		for _, h := range v.Holders {
			if h.State == client.StateNames[lockagentv1.State_STATE_UNCERTAIN] {
				doubtful++
			}
		}
	}
	lines := []string{
		fmt.Sprintf(
			"%s   %s   %d held   %d waiting   %d uncertain", s.socket, readable.Counted(len(s.locks), "lock", "locks"), held,
			waiting, doubtful,
		),
		fmt.Sprintf("sorted by %s   s sorts anew   q ends", orders[s.order].by),
	}
	if s.gone != nil {
		lines[1] = fmt.Sprintf("STALE since %s: %v", readable.Time(s.since, now), s.gone)
	}
	t := cli.NewTable(lockColumns...)
	for _, r := range s.list(now).Rows {
		t.Add(r.Cells...)
	}
	lines = append(lines, "")
	lines = append(lines, strings.Split(strings.TrimSuffix(t.String(), "\n"), "\n")...)
	if over := len(lines) - height; over > 0 && height > 0 {
		lines = append(lines[:height-1], fmt.Sprintf("... and %d more", over+1))
	}
	for i, line := range lines {
		if runes := []rune(cli.OneLine(line)); len(runes) > width {
			line = string(runes[:width])
		}
		lines[i] = line
	}
	return lines
}

package demo

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
	"github.com/lockagent/lockagent/events/audit"
)

// Intro says what a demonstration is going to do.
func (cfg Config) Intro() string {
	agents := readable.Counted(cfg.Agents, "agent", "agents")
	if cfg.Command != nil {
		agents += ", each a process of its own,"
	}
	what := fmt.Sprintf("%s with %s each", agents, readable.Counted(cfg.Workers, "worker", "workers"))
	if cfg.NoLocks {
		return fmt.Sprintf(
			"%s write to %s for %v without locking anything.", what, readable.Counted(cfg.Locks, "counter", "counters"),
			cfg.Duration,
		)
	}
	store, log := "in memory", "in an embedded NATS server"
	if cfg.Redis != "" {
		store = "Redis"
	}
	if cfg.Keep != "" {
		log += ", kept in " + cfg.Keep
	}
	if cfg.NATS.URL != "" {
		log = "in NATS"
	}
	return fmt.Sprintf(
		"%s contend for %s for %v.\nStore: %s. Event log: %s.", what, readable.Counted(cfg.Locks, "lock", "locks"),
		cfg.Duration, store, log,
	)
}

// WriteText writes the summary for people.
func (s *Summary) WriteText(w io.Writer, colour bool) error {
	var b strings.Builder
	b.WriteString("What happened\n")
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-12s %s\n", name, fmt.Sprintf(format, args...))
	}
	if s.Locked {
		s.writeLocked(line)
	} else {
		line(
			"writes", "%s, or %s per second", readable.Number(s.Updates),
			readable.Number(int64(float64(s.Updates)/float64(max(1, s.ElapsedMS))*1000)),
		)
	}
	b.WriteString("\nWhat was checked\n")
	for _, c := range s.Checks {
		fmt.Fprintf(&b, "  %s %-18s%s\n", mark(c.OK, colour), c.Name, c.Says)
		for _, d := range c.Detail {
			fmt.Fprintf(&b, "       %s\n", strings.ReplaceAll(d, "\n", "\n       "))
		}
	}
	if s.OK && s.Locked {
		b.WriteString("\nProven: no two workers ever held the same lock at the same time")
		if s.Audit != nil && s.Audit.Explained.Count > 0 {
			b.WriteString(", apart from the\noverlaps above, in which no update was lost, for the counters refuse old tokens")
		}
		b.WriteString(".\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (s *Summary) writeLocked(line func(name, format string, args ...any)) {
	line("grants", "%s, or %s per second", readable.Number(s.Grants), readable.Number(int64(s.GrantsPerSecond)))
	line(
		"waits", "half of them up to %s, 99 %% up to %s, the longest %s", micros(s.Waits.P50), micros(s.Waits.P99),
		micros(s.Waits.Max),
	)
	line("hand-offs", "%s of the grants, made without asking the store", readable.Percent(s.HandOffShare))
	line("store calls", "%.2f per grant: %s to acquire, %s to release, %s to renew", s.StoreCalls.PerGrant,
		readable.Number(s.StoreCalls.Acquire), readable.Number(s.StoreCalls.Release), readable.Number(s.StoreCalls.Renew))
	if n := len(s.StoreResets); n > 0 {
		line(
			"store resets", "%d (%s): the store may have come back without what it knew", n, strings.Join(s.StoreResets, ", "),
		)
	}
	if n := len(s.GracePeriods); n > 0 {
		line("grace", "%s in which the store waited for its holders: %s",
			readable.Counted(n, "period", "periods"), graceTexts(s.GracePeriods))
	}
	line("losses", "%s", losses(s.Losses))
	if s.Unconfirmed > 0 {
		line(
			"unconfirmed", "%s of which the store could not be told in time",
			readable.Counted(int(s.Unconfirmed), "release", "releases"),
		)
	}
	if s.Unfinished > 0 {
		line("unfinished", "%s, for time was up", readable.Counted(int(s.Unfinished), "update", "updates"))
	}
	line("refused", "%s with an old token", readable.Counted(int(s.Refused), "operation", "operations"))
}

// graceTexts tells how long each grace period took, and who did not come back.
func graceTexts(all []GracePeriod) string {
	var texts []string
	for _, g := range all {
		text := "its end is not in the event log"
		if g.Ended {
			text = readable.Duration(time.Duration(g.TookMS) * time.Millisecond)
		}
		text += " (" + g.Reason
		if missing := (audit.Grace{Missing: g.Missing, More: g.MoreMissing}).MissingText(); missing != "" {
			text += "; " + missing + " did not come back"
		}
		texts = append(texts, text+")")
	}
	return strings.Join(texts, ", ")
}

func losses(by map[string]uint64) string {
	if len(by) == 0 {
		return "none"
	}
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, fmt.Sprintf("%s (%s)", readable.Number(by[reason]), reason))
	}
	return strings.Join(parts, ", ") + ": each holder was told"
}

func micros(us int64) string { return readable.Duration(time.Duration(us) * time.Microsecond) }

func mark(ok, colour bool) string {
	text, code := "FAIL", "31"
	if ok {
		text, code = "ok  ", "32"
	}
	if colour {
		return "\x1b[" + code + "m" + text + "\x1b[m"
	}
	return text
}

package demo

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
	"github.com/lockagent/lockagent/events/audit"
)

// Summary is the outcome of a demonstration. As JSON it is a contract: fields are
// only ever added.
type Summary struct {
	// OK is true if every check is.
	OK bool `json:"ok"`

	Agents    int    `json:"agents"`
	Processes bool   `json:"processes"` // each agent was a process of its own
	Workers   int    `json:"workers"`   // of each agent
	Locks     int    `json:"locks"`
	Locked    bool   `json:"locked"`    // false if the workers did without the locks
	Store     string `json:"store"`     // "memory" or "redis", or empty without locks
	EventLog  string `json:"event_log"` // "embedded" or "nats", or empty without locks

	ElapsedMS       int64   `json:"elapsed_ms"`
	Grants          uint64  `json:"grants"`
	GrantsPerSecond float64 `json:"grants_per_second"`
	Waits           Waits   `json:"waits"`

	HandOffs     uint64     `json:"hand_offs"`
	HandOffShare float64    `json:"hand_off_share"` // of the grants, 0 to 1
	StoreCalls   StoreCalls `json:"store_calls"`
	StoreResets  []string   `json:"store_resets"` // the reason of each, as the event log has it

	// GracePeriods are those in which the store granted nothing new, as the event log has them.
	GracePeriods []GracePeriod `json:"grace_periods"`

	// Losses counts the holds that were lost, by reason, and Unconfirmed the
	// releases that the store could not be told of.
	Losses      map[string]uint64 `json:"losses"`
	Unconfirmed uint64            `json:"unconfirmed_releases"`

	// Counters are what the locks protected, and Updates, LostUpdates and Refused
	// the sums of them.
	Counters    map[lockagent.Name]Counter `json:"counters"`
	Updates     int64                      `json:"updates"`
	LostUpdates int64                      `json:"lost_updates"`
	Refused     int64                      `json:"refused_operations"`
	// Unfinished counts the updates that the end of the demonstration cut short.
	Unfinished uint64 `json:"unfinished"`

	Events EventCounts `json:"events"`

	// Audit is what the event log proves; nil without locks, or if the log could
	// not be read.
	Audit *audit.Report `json:"audit,omitempty"`

	Checks []Check `json:"checks"`

	// Failure joins the errors of the agents that did not end well.
	Failure error `json:"-"`
}

// GracePeriod is a time in which a store waited for its holders.
type GracePeriod struct {
	Reason string `json:"reason"`
	Ended  bool   `json:"ended"` // the event log has its end
	TookMS int64  `json:"took_ms,omitempty"`

	// Missing are agents that did not come back, and MoreMissing is how many the event log does not name.
	Missing     []lockagent.AgentID `json:"missing,omitempty"`
	MoreMissing int                 `json:"more_missing,omitempty"`
}

// Waits are the times from request to grant, in microseconds.
type Waits struct {
	P50 int64 `json:"p50_us"`
	P99 int64 `json:"p99_us"`
	Max int64 `json:"max_us"`
}

// StoreCalls counts the calls to the store.
type StoreCalls struct {
	Acquire  uint64  `json:"acquire"`
	Renew    uint64  `json:"renew"`
	Release  uint64  `json:"release"`
	PerGrant float64 `json:"per_grant"`
}

// EventCounts tells what became of the facts for the event log.
type EventCounts struct {
	Published   uint64 `json:"published"`
	Records     uint64 `json:"records"` // that were made of them, and are in the log
	Dropped     uint64 `json:"dropped"`
	Unpublished uint64 `json:"unpublished"` // not known to be in the log when time was up
}

// Check is one thing that a demonstration shows, or fails to show.
type Check struct {
	Name   string   `json:"name"`
	OK     bool     `json:"ok"`
	Says   string   `json:"says"`
	Detail []string `json:"detail,omitempty"`
}

// sum is the summary without the audit.
func (s *show) sum(elapsed time.Duration) Summary {
	total := s.total()
	sum := Summary{
		OK:        true,
		Agents:    len(s.members),
		Processes: s.cfg.Command != nil,
		Workers:   s.cfg.Workers,
		Locks:     s.cfg.Locks,
		Locked:    !s.cfg.NoLocks,

		ElapsedMS:       elapsed.Milliseconds(),
		Grants:          total.Grants,
		GrantsPerSecond: float64(total.Grants) / max(elapsed, time.Microsecond).Seconds(),
		Waits: Waits{
			P50: total.wait(50).Microseconds(),
			P99: total.wait(99).Microseconds(),
			Max: total.wait(100).Microseconds(),
		},
		HandOffs:     total.HandOffs,
		HandOffShare: share(total.HandOffs, total.Grants),
		StoreCalls: StoreCalls{
			Acquire:  total.Acquires,
			Renew:    total.Renewals,
			Release:  total.Releases,
			PerGrant: share(total.calls(), total.Grants),
		},
		StoreResets:  []string{},
		GracePeriods: []GracePeriod{},
		Losses:       total.Losses,
		Unconfirmed:  total.Unconfirmed,
		Unfinished:   total.Unfinished,
		Counters:     s.resource.state(),
		Failure:      errors.Join(s.ends...),
		Events:       EventCounts{total.Published, total.Records, total.Dropped, total.Unpublished},
	}
	for _, c := range sum.Counters {
		sum.Updates += c.Writes
		sum.LostUpdates += c.Lost()
		sum.Refused += c.Refused
	}
	if sum.Locked {
		sum.Store, sum.EventLog = "memory", "embedded"
		if s.cfg.Redis != "" {
			sum.Store = "redis"
		}
		if s.cfg.NATS.URL != "" {
			sum.EventLog = "nats"
		}
	}
	sum.check(sum.counterCheck())
	sum.check(s.agentCheck())
	if sum.Locked {
		sum.check(sum.eventCheck())
	}
	return sum
}

func share(part, of uint64) float64 {
	if of == 0 {
		return 0
	}
	return float64(part) / float64(of)
}

func (s *Summary) check(c Check) {
	s.Checks = append(s.Checks, c)
	s.OK = s.OK && c.OK
}

// Failed returns the checks that are not OK.
func (s *Summary) Failed() []Check {
	var failed []Check
	for _, c := range s.Checks {
		if !c.OK {
			failed = append(failed, c)
		}
	}
	return failed
}

func (s *Summary) counterCheck() Check {
	c := Check{Name: "no lost update", OK: s.LostUpdates == 0 && s.Updates > 0}
	switch {
	case s.Updates == 0:
		c.Says = "nobody has written anything"
	case c.OK:
		c.Says = fmt.Sprintf(
			"%s writes were accepted, and the counters say %s", readable.Number(s.Updates), readable.Number(s.Updates),
		)
	default:
		c.Says = fmt.Sprintf("%s writes were accepted, but the counters say %s: %s were lost",
			readable.Number(s.Updates), readable.Number(s.Updates-s.LostUpdates), readable.Number(s.LostUpdates))
	}
	return c
}

func (s *show) agentCheck() Check {
	c := Check{Name: "agents"}
	for i, err := range s.ends {
		if err != nil {
			c.Detail = append(c.Detail, fmt.Sprintf("agent %d: %v", i+1, err))
		}
	}
	c.OK = len(c.Detail) == 0
	c.Says = fmt.Sprintf("%d of %d ended well", len(s.ends)-len(c.Detail), len(s.ends))
	return c
}

func (s *Summary) eventCheck() Check {
	e := s.Events
	c := Check{Name: "event log", OK: e.Dropped == 0 && e.Unpublished == 0}
	if c.OK {
		c.Says = fmt.Sprintf(
			"%s facts, in %s, none dropped", readable.Number(e.Published), readable.Counted(e.Records, "record", "records"),
		)
	} else {
		c.Says = fmt.Sprintf("%s facts published, %s dropped, %s not confirmed in time",
			readable.Number(e.Published), readable.Number(e.Dropped), readable.Number(e.Unpublished))
	}
	return c
}

// resets names each reset that a log tells of once, though each agent does.
func resets(r audit.Report) []string {
	seen := make(map[string]bool)
	var reasons []string
	for _, reset := range r.Resets.First {
		if !seen[reset.To] {
			seen[reset.To] = true
			reasons = append(reasons, reset.Reason)
		}
	}
	return reasons
}

// gracePeriods are those that a report names.
func gracePeriods(r audit.Report) (all []GracePeriod) {
	for _, g := range r.Graces.First {
		p := GracePeriod{Reason: g.Reason, Ended: g.Ended != 0, Missing: g.Missing, MoreMissing: g.More}
		if p.Ended {
			p.TookMS = g.Ended.Sub(g.Began).Milliseconds()
		}
		all = append(all, p)
	}
	return all
}

// mostDetails is how many of the audit's findings a check names. The audit itself names more.
const mostDetails = 10

// judge adds what the audit says, or why there is none.
func (s *Summary) judge(r audit.Report, err error) {
	c := Check{Name: "mutual exclusion"}
	defer func() { s.check(c) }()
	if err != nil {
		c.Says = fmt.Sprintf("the event log cannot be read: %v", err)
		return
	}
	s.Audit = &r
	s.StoreResets = append(s.StoreResets, resets(r)...)
	s.GracePeriods = append(s.GracePeriods, gracePeriods(r)...)
	c.OK = r.Verdict == audit.Proven || r.Verdict == audit.Explained
	switch r.Verdict {
	case audit.Proven:
		c.Says = fmt.Sprintf("no two of %s holds overlapped, says the event log", readable.Number(r.Grants))
	case audit.Explained:
		c.Says = fmt.Sprintf(
			"%s holds; %d overlapped with another, and the event log says why", readable.Number(r.Grants), r.Explained.Count,
		)
	case audit.Violated:
		c.Says = fmt.Sprintf(
			"%d violations among %s holds, says the event log", r.Violations.Count, readable.Number(r.Grants),
		)
	default:
		c.Says = fmt.Sprintf(
			"no two of %s holds are seen to overlap, but the event log is %s", readable.Number(r.Grants), r.Verdict,
		)
	}
	// The log of an agent that ended in order says so, and leaves no hold open.
	if n := s.Agents - (r.Agents - r.Tails.Count); n > 0 || r.OpenHolds.Count > 0 {
		c.OK = false
		c.Detail = append(
			c.Detail,
			fmt.Sprintf(
				"in the log there is no end of %s and %s", readable.Counted(n, "agent", "agents"),
				readable.Counted(r.OpenHolds.Count, "hold", "holds"),
			),
		)
	}
	found := r.Findings()
	c.Detail = append(c.Detail, found[:min(len(found), mostDetails)]...)
	if more := len(found) - mostDetails; more > 0 {
		c.Detail = append(c.Detail, fmt.Sprintf("and %d more", more))
	}
}

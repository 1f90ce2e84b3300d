package actor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// Defaults of [Config].
const (
	DefaultLease         = 30 * time.Second
	DefaultClaim         = 30 * time.Second
	DefaultHandOffGrants = 256
	DefaultHandOffTime   = 50 * time.Millisecond
	DefaultIdle          = 10 * time.Second
)

// Config has the settings of an [Agent]. Package channelapi has the same Config for applications,
// and documents it. Store is required. The zero value of every other field stands for its default.
type Config struct {
	// Store arbitrates the locks. It serves this agent alone. Closing the agent does not close it.
	Store lockagent.Store
	// Label begins the identity of the agent, before a hyphen and a UUID. It has up to 27 ASCII
	// letters, digits, '-' and '_'.
	Label string
	// ID is the identity of the agent, in place of a new one. It excludes Label. No other agent
	// may have had it, except the agent that this one resumes: see [Resume].
	ID lockagent.AgentID
	// Process describes the process of the agent for the event log: see [lockagent.Who]. Its requests are of that
	// process unless they name another one. Each field that is zero is found out, but for Command: that stays empty,
	// because arguments may hold secrets.
	Process lockagent.Process
	// Recorder takes the events of the agent, or those that it wants, see
	// [lockagent.SelectiveRecorder]. Defaults to none.
	Recorder lockagent.Recorder
	// Journal gets what another process needs to go on if this one ends at any instant. Defaults to none.
	Journal Journal
	// Resumed is called for each request that [Resume] goes on with, before anything happens to it: whoever asked for
	// the lock was another process. The context is as that of [Agent.Acquire], the watcher is as Request.Watch, and the
	// last result is as Request.Who. All may be zero. Defaults to none.
	Resumed func(ResumedRequest) (context.Context, Watcher, lockagent.Who)
	// Logger gets what the agent can report nowhere else: defects, the first grant that nobody
	// received, and the first grant that the application dropped. Defaults to slog.Default().
	Logger *slog.Logger
	// Lease is the length of kept leases, at least 10 ms. Defaults to DefaultLease.
	Lease time.Duration
	// Margin is the time between the deadline of a hold and the end of its lease in the store. It
	// is at most half of Lease. Defaults to a tenth of each lease, and at most 2 s.
	Margin time.Duration
	// Claim is how long a grant may lie in its channel before it is taken back. Defaults to
	// DefaultClaim.
	Claim time.Duration
	// HandOffGrants, between 1 and 10,000, and HandOffTime bound how long an agent hands a lock
	// off among its own owners. Default to DefaultHandOffGrants and DefaultHandOffTime.
	HandOffGrants int
	HandOffTime   time.Duration
	// NoRest has no lock rest between two holds.
	NoRest bool
	// Idle is how long an unused lock stays in memory. Defaults to DefaultIdle.
	Idle time.Duration
}

// leaseLeast leaves room for a few renewals in a lease.
const leaseLeast = 10 * time.Millisecond

func (c Config) withDefaults() (Config, error) {
	id, err := c.identity()
	c.ID = id
	errs := []error{err} // Join leaves out nil
	wrong := func(field, format string, args ...any) {
		errs = append(errs, wrongOption("Config."+field, format, args...))
	}
	if c.Store == nil {
		wrong("Store", "it is missing; open one with redisstore.Open or memstore.New")
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Process = describe(c.Process)
	duration := func(field string, d *time.Duration, def, least time.Duration) {
		switch {
		case *d == 0:
			*d = def
		case *d < least || *d > lockagent.MaxLease:
			wrong(field, "%v is not between %v and %v", *d, least, lockagent.MaxLease)
		}
	}
	duration("Lease", &c.Lease, DefaultLease, leaseLeast)
	if c.Margin < 0 || c.Margin > c.Lease/2 {
		wrong("Margin", "%v is not between 0 and %v, half of the lease", c.Margin, c.Lease/2)
	}
	duration("Claim", &c.Claim, DefaultClaim, 1)
	duration("HandOffTime", &c.HandOffTime, DefaultHandOffTime, 1)
	duration("Idle", &c.Idle, DefaultIdle, 1)
	switch {
	case c.HandOffGrants == 0:
		c.HandOffGrants = DefaultHandOffGrants
	case c.HandOffGrants < 1 || c.HandOffGrants > handOffMost:
		wrong("HandOffGrants", "%d is not between 1 and %d", c.HandOffGrants, handOffMost)
	}
	return c, errors.Join(errs...)
}

func wrongOption(option, format string, args ...any) error {
	return &lockagent.OptionError{Option: option, Reason: fmt.Sprintf(format, args...)}
}

// labelMost leaves room in an identity for a hyphen and a UUID.
const labelMost = 27

// identity returns the identity of the agent, or what is wrong with ID or Label.
func (c *Config) identity() (lockagent.AgentID, error) {
	switch {
	case c.ID != "" && c.Label != "":
		return "", wrongOption("Config.Label", "Label and ID exclude each other; leave one of them out")
	case c.ID != "":
		return lockagent.ParseAgentID(string(c.ID))
	case c.Label == "":
		return lockagent.NewAgentID(), nil
	case len(c.Label) > labelMost:
		return "", wrongOption("Config.Label", "%.64q has %d bytes, the limit is %d", c.Label, len(c.Label), labelMost)
	}
	id, err := lockagent.ParseAgentID(c.Label + "-" + string(lockagent.NewAgentID()))
	if err != nil {
		return "", wrongOption("Config.Label", "%q has something else than ASCII letters, digits, '-' and '_'", c.Label)
	}
	return id, nil
}

// handOffMost is more than anybody needs.
const handOffMost = 10_000

// Timing that nobody has needed to change.
const (
	yield     = 2 * time.Millisecond  // other agents need a wake-up and a round trip
	spinYield = 16 * time.Millisecond // those that poll seldom have to meet it
	maxSleep  = 30 * time.Second
	retryMin  = 20 * time.Millisecond
	retryMax  = time.Second
	linger    = time.Second
	rest      = 90 * time.Millisecond // and others have the lock within 100 ms
	// A lock that nobody of this agent has waited for so long was free for those that poll.
	spinLinger = 10 * time.Millisecond
)

func (c *Config) base() *lockstate.Config {
	return &lockstate.Config{
		Agent:         c.ID,
		Watchdog:      c.Lease,
		Scatter:       c.Lease / 6,
		Margin:        c.Margin,
		Claim:         c.Claim,
		HandOffGrants: c.HandOffGrants,
		HandOffTime:   c.HandOffTime,
		Yield:         yield,
		MaxSleep:      maxSleep,
		RetryMin:      retryMin,
		RetryMax:      retryMax,
		Linger:        linger,
	}
}

// resting is base for plain and fenced locks, which may rest.
func (c *Config) resting() *lockstate.Config {
	l := c.base()
	if !c.NoRest && c.HandOffGrants > 1 {
		l.Rest = rest
	}
	return l
}

// spinning is base for spin locks.
func (c *Config) spinning() *lockstate.Config {
	l := c.base()
	l.Polls, l.Yield, l.Linger = true, spinYield, spinLinger
	return l
}

package actor

import (
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

// Config tells an [Agent] what to work with. The zero value of every field but
// Store is usable.
type Config struct {
	// Store arbitrates the locks. It is required, and stays open when the agent is
	// closed. It serves this agent alone.
	Store lockagent.Store

	// ID identifies the agent to stores and in events. Defaults to a new random
	// identity, which is what it should be unless a test says otherwise: two
	// agents with one identity take each other's tenures for their own.
	ID lockagent.AgentID

	// Recorder takes the events of the agent. Defaults to none.
	Recorder lockagent.Recorder

	// Logger is told of defects, which nobody else could be told of. Defaults to
	// slog.Default().
	Logger *slog.Logger

	// Lease is the lease of locks that are kept: it is renewed when a third of it
	// has passed, the first time up to a sixth of it earlier, and a holder that dies blocks others for at most as long. At
	// least 10 ms. Shorter frees dead holders' locks sooner, longer survives longer
	// outages of the store. Defaults to DefaultLease.
	Lease time.Duration

	// Claim is how long a grant may lie in its channel before it is taken back.
	// Defaults to DefaultClaim.
	Claim time.Duration

	// HandOffGrants and HandOffTime bound how long an agent hands a lock off among
	// its own owners before it returns the lock to the store, so that other agents
	// get their turn: after so many grants, or when so much time has passed.
	// While somebody waits who is not told of a pass, such as Redisson, it is a fifth of that time.
	// HandOffGrants is between 1, which switches hand-off off, and 10,000.
	// They default to DefaultHandOffGrants and DefaultHandOffTime.
	HandOffGrants int
	HandOffTime   time.Duration

	// Idle is how long a lock that nobody uses stays in memory. Defaults to
	// DefaultIdle.
	Idle time.Duration
}

// leaseLeast leaves room for a few renewals in a lease.
const leaseLeast = 10 * time.Millisecond

func (c Config) withDefaults() (Config, error) {
	var errs []error
	if c.Store == nil {
		errs = append(errs, &lockagent.OptionError{Option: "Config.Store", Reason: "it is missing; open one with redisstore.Open or memstore.New"})
	}
	if c.ID == "" {
		c.ID = lockagent.NewAgentID()
	} else if _, err := lockagent.ParseAgentID(string(c.ID)); err != nil {
		errs = append(errs, err)
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	duration := func(name string, d *time.Duration, def, least time.Duration) {
		switch {
		case *d == 0:
			*d = def
		case *d < least || *d > lockagent.MaxLease:
			errs = append(errs, &lockagent.OptionError{Option: "Config." + name, Reason: fmt.Sprintf("%v is not between %v and %v", *d, least, lockagent.MaxLease)})
		}
	}
	duration("Lease", &c.Lease, DefaultLease, leaseLeast)
	duration("Claim", &c.Claim, DefaultClaim, 1)
	duration("HandOffTime", &c.HandOffTime, DefaultHandOffTime, 1)
	duration("Idle", &c.Idle, DefaultIdle, 1)
	switch {
	case c.HandOffGrants == 0:
		c.HandOffGrants = DefaultHandOffGrants
	case c.HandOffGrants < 1 || c.HandOffGrants > handOffMost:
		errs = append(errs, &lockagent.OptionError{Option: "Config.HandOffGrants", Reason: fmt.Sprintf("%d is not between 1 and %d", c.HandOffGrants, handOffMost)})
	}
	return c, errors.Join(errs...)
}

// handOffMost is more than anybody needs.
const handOffMost = 10_000

// Timing that nobody has needed to change.
const (
	yield    = 2 * time.Millisecond // a round trip and a wake-up, for the others
	maxSleep = 30 * time.Second
	retryMin = 20 * time.Millisecond
	retryMax = time.Second
	linger   = time.Second
)

func (c *Config) locks() *lockstate.Config {
	return &lockstate.Config{
		Agent:         c.ID,
		Watchdog:      c.Lease,
		Scatter:       c.Lease / 6,
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

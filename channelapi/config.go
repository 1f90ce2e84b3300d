package channelapi

import (
	"log/slog"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
)

// Config tells what [Locks] work with. Only the store is required: the zero value of
// every other field stands for its default.
type Config struct {
	// Store arbitrates the locks between processes: one of redisstore.Open, or one of
	// memstore.New for tests and for programs that are alone. It is required. It stays
	// open when the locks are closed; close it after them. Several Locks may share one.
	Store lockagent.Store

	// Label says for people whose locks these are: a host, a program. The identity of the
	// agent begins with it, so other processes see it as the holder of its locks. It has up
	// to 27 ASCII letters, digits, '-' and '_'. Defaults to none.
	Label string

	// ID is the identity of the agent, in place of a new one. It is for those who have to
	// know it first, such as a publisher of events: make it with lockagent.NewAgentID for
	// these locks, and for no others. Two agents with one identity take each other's locks
	// for their own. It excludes Label.
	ID lockagent.AgentID

	// Recorder takes the events of the locks: one of package tracing or of package events.
	// Defaults to none.
	Recorder lockagent.Recorder

	// Logger is told what nobody else could be told: of defects, and of grants that nobody
	// received. Defaults to slog.Default().
	Logger *slog.Logger

	// Lease is the lease of locks that are kept. It is renewed when a third of it has
	// passed, the first time up to a sixth of it earlier. A process that dies blocks others
	// for at most as long. Shorter frees the locks of the dead sooner, longer survives longer
	// outages of the store. At least 10 ms. Defaults to DefaultLease, 30 s.
	Lease time.Duration

	// Margin is the time between the end of a lease in the store and the moment at which the
	// holder is told that its lock is lost. It pays for clocks that run at different rates,
	// and for the time that the work needs to stop. More is safer, and has a process without
	// a store stop earlier. At most half of Lease; of a shorter lease it takes at most half.
	// Defaults to a tenth of each lease, at most 2 s.
	Margin time.Duration

	// Claim is how long a grant may lie in its channel before it is given back. Defaults
	// to DefaultClaim, 30 s.
	Claim time.Duration

	// HandOffGrants and HandOffTime bound how long this process passes a lock on among its
	// own goroutines before others get their turn: after so many grants, or when so much
	// time has passed. HandOffGrants is between 1, which switches that off, and 10,000.
	// They default to DefaultHandOffGrants, 256, and DefaultHandOffTime, 50 ms.
	HandOffGrants int
	HandOffTime   time.Duration

	// Idle is how long a lock that nobody uses stays in memory. Defaults to DefaultIdle,
	// 10 s.
	Idle time.Duration
}

// agent is the configuration of the agent behind the locks.
func (c Config) agent() actor.Config { return actor.Config(c) }

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

	// ID identifies the agent to stores and in events. Defaults to a new random
	// identity, which is what it should be unless a test says otherwise: two agents with
	// one identity take each other's tenures for their own.
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
func (c Config) agent() actor.Config {
	return actor.Config{
		Store: c.Store, ID: c.ID, Recorder: c.Recorder, Logger: c.Logger,
		Lease: c.Lease, Claim: c.Claim,
		HandOffGrants: c.HandOffGrants, HandOffTime: c.HandOffTime, Idle: c.Idle,
	}
}

package channelapi

import (
	"log/slog"
	"time"

	"github.com/lockagent/lockagent/actor"
)

// Config configures [Locks]. Only Store is required. The zero value of every other field
// stands for its default.
type Config struct {
	// Store arbitrates the locks between processes. redisstore.Open makes one. memstore.New
	// makes one for tests, and for programs that share no locks with others. It is required.
	// It serves these Locks alone. It stays open when the locks are closed: close it after
	// them.
	Store Store

	// Label tells people whose locks these are: the name of a host or of a program. The
	// identity of the agent begins with it, and other processes see that identity as the
	// holder. Label has up to 27 ASCII letters, digits, '-' and '_'. Defaults to none.
	Label string

	// ID is the identity of the agent, in place of a new one. Set it if another part of the
	// program, such as a publisher of events, needs the identity before New. Make it with
	// [NewAgentID], for these locks alone. Of two agents that are alive and have one identity,
	// the one that came later ends: its errors are [ErrIdentityInUse], and its holds are lost
	// with [LostIdentity]. A break spares what an identity without a UUID holds, since other
	// programs may have keys like that. Beside an identity of another form, waiters may ask the
	// store more often. It excludes Label.
	ID AgentID

	// Process describes this process in the event log: who has the locks. Each field that is zero is found out: the
	// name of the host, the program, its version, the pid and the user. Command stays empty unless you set it, because
	// arguments may hold secrets: of it the log has the first [lockagent.MaxProcessText] bytes.
	Process Process

	// Recorder takes the events of the locks: one of package tracing or of package natslog.
	// A recorder of your own may want no events for some time, for example while it is switched
	// off. Then implement [lockagent.SelectiveRecorder]: while it wants none, none are made.
	// Defaults to none.
	Recorder Recorder

	// Logger gets what no caller could be told: defects, and grants that nobody received.
	// Defaults to slog.Default().
	Logger *slog.Logger

	// Lease is the length of kept leases. The agent renews a kept lease when a third of it has
	// passed, and for the first time up to a sixth of it earlier. After a crash of this
	// process its locks stay held for at most one Lease. A shorter Lease frees them sooner. A lock
	// that the process takes again and again, for less than 2 s, begins with a lease of 2 s.
	// A longer one survives longer outages of the store. At least 10 ms. Defaults to
	// DefaultLease, 30 s.
	Lease time.Duration

	// Margin is how long before the end of a lease in the store the holder is told of the
	// loss. It makes up for clocks that run at different rates, and for the time that the
	// work needs to stop. A greater margin is safer. But a process that does not reach its
	// store then loses its locks earlier. Margin is at most half of Lease. It takes at most
	// half of a shorter lease. Defaults to a tenth of each lease, at most 2 s.
	Margin time.Duration

	// Claim is how long a grant may lie in its channel before it is given back. Defaults
	// to DefaultClaim, 30 s.
	Claim time.Duration

	// HandOffGrants and HandOffTime bound the hand-off of a lock from one owner of this
	// process to the next. After so many grants, or when so much time has passed, the lock
	// goes back to the store, and other processes get their turn. While outsiders wait, such
	// as Redisson, it is a twentieth of the grants and a tenth of the time. HandOffGrants is at
	// most 10,000; 1 switches hand-off off. They default to DefaultHandOffGrants, 256, and
	// DefaultHandOffTime, 50 ms.
	HandOffGrants int
	HandOffTime   time.Duration

	// NoRest switches resting off. Without it a plain or fenced lock that only this process uses, again and again,
	// rests: between two holds it stays in this process. The next hold then begins and ends without the store. The
	// lock goes back within 100 ms, and at once when another process wants it. While it rests, other programs see it
	// as held. If this process dies then, or without a Close, others get the lock after 2 s. The option [NoRest] is
	// for single requests. HandOffGrants of 1 switches resting off, too.
	NoRest bool

	// Idle is how long a lock that nobody uses stays in memory. Defaults to DefaultIdle,
	// 10 s.
	Idle time.Duration
}

// agent is the configuration of the agent behind the locks. It has no journal.
func (c Config) agent() actor.Config {
	return actor.Config{
		Store: c.Store, Label: c.Label, ID: c.ID, Process: c.Process, Recorder: c.Recorder, Logger: c.Logger, Lease: c.Lease,
		Margin: c.Margin, Claim: c.Claim, HandOffGrants: c.HandOffGrants, HandOffTime: c.HandOffTime, NoRest: c.NoRest,
		Idle: c.Idle,
	}
}

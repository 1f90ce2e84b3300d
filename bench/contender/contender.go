// Package contender has the ways to lock that are measured: the raw floor, this
// project, and the libraries that Go programs use on Redis today. Each stands behind
// the same small interface, in a file of its own that says how it is set up and why.
package contender

import (
	"context"
	"slices"
)

// Contender is one way to lock, in one process, with one set of connections.
type Contender interface {
	// Lock waits for the lock until ctx ends.
	Lock(ctx context.Context, name string) (Held, error)
	// Close lets go of everything but what is held.
	Close()
}

// Held is a lock that was acquired.
type Held interface {
	// Unlock gives the lock back and returns when the library says that it is free.
	Unlock() error
	// Lost reports whether this process knows that it has the lock no longer.
	Lost() bool
}

// Doer is a contender that can run work under a lock by one call, as its users do most often.
type Doer interface {
	// Do is Lock, work, and Unlock.
	Do(ctx context.Context, name string, work func()) error
}

// Keeper is a contender that has to be asked, or helped, to keep a lock for longer
// than a lease. Of others, Lock does.
type Keeper interface {
	// Keep is Lock for a lock that is held until the process ends.
	Keep(ctx context.Context, name string) (Held, error)
}

// Kind is a contender that can be opened.
type Kind struct {
	// Name is how tables call it.
	Name string
	// Family is what it is a configuration of.
	Family string
	// Setup says how it is configured, and why.
	Setup string
	// Sends are the commands that it sends by themselves, and that scripts run
	// as well. So the server's counters of these commands need a second look.
	// See package commandstats.
	Sends []string
	// Waits is whether Lock waits for a lock that is held.
	Waits bool
	// Open connects to the server at a host:port.
	Open func(ctx context.Context, addr string) (Contender, error)
}

// The families.
const (
	Floor       = "floor"
	Lockagent   = "lockagent"
	Rueidislock = "rueidislock"
	Redsync     = "redsync"
	Redislock   = "redislock"
)

// Kinds are all contenders, in the order in which tables show them.
var Kinds = slices.Concat(floorKinds, lockagentKinds, rueidislockKinds, redsyncKinds, redislockKinds)

// apart are the contenders that take part in some scenarios only.
var apart = []Kind{Unrested, Daemon}

// All are [Kinds], [Unrested] and [Daemon].
func All() []Kind { return slices.Concat(Kinds, apart) }

// Named returns the kind of that name, also if it is not among [Kinds].
func Named(name string) (Kind, bool) {
	all := All()
	i := slices.IndexFunc(all, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, false
	}
	return all[i], true
}

// IsPeer is whether it is somebody else's lock.
func (k Kind) IsPeer() bool { return k.Family != Floor && k.Family != Lockagent }

// Package backend says what package channelapi needs of whoever grants its locks: an agent in the same process, or a
// daemon.
package backend

import (
	"context"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/actor"
)

// Agent grants locks. [actor.Agent] does, and documents the methods. Another one may call no methods of a
// [actor.Watcher] but Granted, Received and Ended, and may call them while it holds its mutex.
type Agent interface {
	ID() lockagent.AgentID

	Acquire(ctx context.Context, name lockagent.Name, req actor.Request) <-chan lockagent.Grant
	Lock(ctx context.Context, name lockagent.Name, req actor.Request) lockagent.Grant
	ReleaseMode(ctx context.Context, name lockagent.Name, owner lockagent.Owner, mode lockagent.Mode) <-chan error
	Leave(ctx context.Context, name lockagent.Name, owner lockagent.Owner) <-chan error

	Status(name lockagent.Name, kind lockagent.LockKind) <-chan lockagent.Result[lockagent.Status]
	Break(name lockagent.Name, kind lockagent.LockKind, operator string) <-chan lockagent.Result[bool]

	Permits(ctx context.Context, req lockagent.PermitsRequest) <-chan lockagent.Result[lockagent.PermitsReply]
	Latch(ctx context.Context, req lockagent.LatchRequest) <-chan lockagent.Result[lockagent.LatchReply]
	Await(ctx context.Context, name lockagent.Name, owner lockagent.Owner, wait time.Duration) <-chan error

	Shutdown(ctx context.Context) error
	Close() error
}

var _ Agent = (*actor.Agent)(nil)

// Backend is an agent, with what channelapi has to know of it. All fields are required.
type Backend struct {
	Agent Agent
	// Identity tells whether two backends have the same locks: then it is the same.
	Identity func() string
	// Claim is how long a grant may lie in its channel before it is given back.
	Claim time.Duration
}

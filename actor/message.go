package actor

import (
	"context"
	"sync"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// message is a message to an actor.
type message interface{ counts() bool }

// counted is part of messages that keep the actor from retiring until it has processed them.
type counted struct{}

// nudge is part of messages that may be lost: an idle actor has nothing to do about them.
type nudge struct{}

func (counted) counts() bool { return true }
func (nudge) counts() bool   { return false }

type (
	statusMsg struct {
		counted
		answer func(lockagent.Status, error)
		unheld uint64 // [lockstate.State.Unheld] when the store was asked
	}
	drainMsg  struct{ counted }
	closeMsg  struct{ counted }
	detachMsg struct {
		counted
		left *sync.WaitGroup
	}
	// resumedMsg: the lock goes on from that of another process.
	resumedMsg struct {
		counted
		entry   *entry
		callers map[*request]context.Context // of those requests that have one
		waits   []lockstate.Request          // those that go on to wait, on the clock of this agent
	}

	cancelMsg struct {
		nudge
		request  *request
		timedOut bool
		wait     bool // Request.Wait has passed; otherwise the context has ended
		err      error
	}
	watchMsg struct { // somebody asked for a warning of a hold
		nudge
		request *request
	}
	// commandMsg is a command for the state machine.
	commandMsg struct {
		nudge
		command lockstate.Command
	}

	// resetMsg: the store was reset.
	resetMsg struct {
		counted
		round int // of returns
	}

	// newsMsg is a message of the store about a tenure.
	newsMsg struct {
		counted
		news lockagent.Message
	}
)

// call is a message that an Unlocked event answers, or the answer of the store to a break.
type call struct {
	counted
	kind     callKind
	request  *request        // the hold to release, or nil if owner tells
	owner    lockagent.Owner // that releases or leaves
	mode     lockagent.Mode  // of the grant that owner releases; empty for any
	operator string          // who breaks the lock
	one      bool            // break only the hold with the token
	token    lockagent.Token // or 0
	caller   context.Context // as in request; may be nil

	lost lockagent.LossReason // why the hold that is released is a loss, or 0

	done    chan error                  // for the answer; nil if the caller waits for outcome, or kind is toBreak
	outcome delivery[error]             // the answer for a caller who waits in Release
	broken  chan lockagent.Result[bool] // for the answer, if kind is toBreak
}

type callKind uint8

const (
	toRelease callKind = iota
	toLeave
	toBreak
)

// command is the command for a call.
func (l *lock) command(c *call, id lockstate.CallID) lockstate.Command {
	switch {
	case c.kind == toLeave:
		return lockstate.OwnerGone{Owner: c.owner, Call: id}
	case c.kind == toBreak:
		return lockstate.Break{Call: id, Operator: c.operator, Token: c.token}
	case c.request != nil:
		return lockstate.Release{ID: c.request.id, Call: id, Lost: c.lost}
	}
	return lockstate.Release{Owner: c.owner, Call: id} // the owner holds nothing
}

// command is the command for a message of the store.
func (m *newsMsg) command() lockstate.Command {
	n := &m.news
	switch n.Kind {
	case lockagent.MessagePassed:
		return lockstate.Passed{
			Tenure: n.Tenure.Number, Token: n.Token, At: n.At, Clock: n.Clock, Incarnation: n.Incarnation,
			Outsiders: n.Outsiders, Contested: n.Contested, Unconfirmed: n.Unconfirmed,
		}
	case lockagent.MessageStandby:
		return lockstate.Standby{Tenure: n.Tenure.Number, Remaining: n.AskAfter}
	case lockagent.MessageWanted:
		return lockstate.Wanted{Tenure: n.Tenure.Number}
	case lockagent.MessageBroken:
		return lockstate.Broken{Tenure: n.Tenure.Number, At: n.At, Operator: n.Operator}
	case lockagent.MessagesMissed:
		return lockstate.Woken{All: true}
	}
	return lockstate.Tick{} // an unknown kind: nothing is due
}

// answer answers the call. It must be called once.
func (c *call) answer(broken bool, err error) {
	if c.kind == toBreak {
		c.broken <- lockagent.Result[bool]{Value: broken, Err: err}
		close(c.broken)
		return
	}
	if c.done == nil {
		c.outcome.deliver(err) // from now on the call may serve another caller
		return
	}
	c.done <- err
	close(c.done)
}

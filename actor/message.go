package actor

import (
	"context"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// message is what an actor is sent.
type message interface{ counts() bool }

// counted messages keep the actor from retiring until they were processed.
type counted struct{}

// nudges may be lost with an idle actor, which had nothing to do about them.
type nudge struct{}

func (counted) counts() bool { return true }
func (nudge) counts() bool   { return false }

type (
	statusMsg struct {
		counted
		reply chan<- lockagent.Result[lockagent.Status]
	}
	drainMsg  struct{ counted }
	closeMsg  struct{ counted }
	detachMsg struct {
		counted
		snapshot chan<- LockSnapshot
	}
	resumedMsg struct{ counted } // the lock was loaded, and begins

	cancelMsg struct {
		nudge
		request  *request
		timedOut bool
		wait     bool // the wait is over, as opposed to the context
		err      error
	}
	overdueMsg struct {
		nudge
		request *request
	}
	wakeMsg  struct{ nudge }
	resetMsg struct{ nudge }
	tickMsg  struct{ nudge }

	// newsMsg is a message of the store about a tenure.
	newsMsg struct {
		counted
		news lockagent.Message
	}
	missedMsg struct{ nudge } // there may have been some that were lost
)

// call is a message that an Unlocked event answers.
type call struct {
	counted
	kind    callKind
	request *request        // whose grant is released, if it is known
	owner   lockagent.Owner // who releases or leaves, if no request tells
	caller  context.Context // as in request; may be nil

	done   chan error                  // for the answer
	again  bool                        // done is used for further calls, and not closed
	broken chan lockagent.Result[bool] // or, if it breaks, this
}

type callKind uint8

const (
	toRelease callKind = iota
	toLeave
	toBreak
)

// command is what a call asks of the state machine.
func (l *lock) command(c *call, id lockstate.CallID) lockstate.Command {
	switch {
	case c.kind == toLeave:
		return lockstate.OwnerGone{Owner: c.owner, Call: id}
	case c.kind == toBreak:
		return lockstate.Break{Call: id}
	case c.request != nil:
		return lockstate.Release{ID: c.request.id, Call: id}
	}
	return lockstate.Release{Owner: c.owner, Call: id} // who holds nothing
}

// command is what the store's message says to the state machine.
func (m *newsMsg) command() lockstate.Command {
	n := &m.news
	switch n.Kind {
	case lockagent.MessagePassed:
		return lockstate.Passed{
			Tenure: n.Tenure.Number, Token: n.Token, At: n.At, Clock: n.Clock, Incarnation: n.Incarnation, Outsiders: n.Outsiders,
		}
	case lockagent.MessageStandby:
		return lockstate.Standby{Tenure: n.Tenure.Number, Remaining: n.Remaining}
	case lockagent.MessageWanted:
		return lockstate.Wanted{Tenure: n.Tenure.Number}
	case lockagent.MessageBroken:
		return lockstate.Broken{Tenure: n.Tenure.Number, At: n.At}
	}
	return lockstate.Tick{} // of a kind that was not known when this was written
}

// answer answers the call, which has to happen once.
func (c *call) answer(broken bool, err error) {
	if c.kind == toBreak {
		c.broken <- lockagent.Result[bool]{Value: broken, Err: err}
		close(c.broken)
		return
	}
	c.done <- err // from here on the call may serve another caller, if it does so at all
	if !c.again {
		close(c.done)
	}
}

package actor

import (
	"context"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/lockstate"
)

// message is what an actor is sent. None is worth a log line when it arrives at an
// actor that is gone: those that matter are counted, and then it is not gone.
type message interface{ IgnoreDeadLetterLogging() }

// counted messages keep the actor from retiring until they were processed.
type counted struct{}

// nudges may be lost with an idle actor, which had nothing to do about them.
type nudge struct{}

func (counted) IgnoreDeadLetterLogging() {}
func (counted) counts()                  {}
func (nudge) IgnoreDeadLetterLogging()   {}

type (
	acquireMsg struct {
		counted
		request *request
		ctx     context.Context // of the caller
	}
	// callMsg wants an Unlocked for its call.
	callMsg struct {
		counted
		call    *call
		command func(lockstate.CallID) lockstate.Command
	}
	statusMsg struct {
		counted
		reply chan<- lockagent.Result[lockagent.Status]
	}
	// replyMsg answers a store call that the state machine asked for.
	replyMsg struct {
		counted
		reply lockstate.Command
	}
	// brokenMsg and inspectedMsg answer store calls that it does not know of.
	brokenMsg struct {
		counted
		call  *call
		reply lockagent.BreakReply
		err   error
	}
	inspectedMsg struct {
		counted
		reply      chan<- lockagent.Result[lockagent.Status]
		inspection lockagent.Inspection
		err        error
	}
	closeMsg struct{ counted }

	cancelMsg struct {
		nudge
		request  *request
		timedOut bool
		wait     bool // the wait is over, as opposed to the context
		err      error
	}
	wakeMsg  struct{ nudge }
	resetMsg struct{ nudge }
	tickMsg  struct{ nudge }
)

// call is something that an Unlocked event answers.
type call struct {
	request *request        // whose grant is released, if it is known
	breaks  bool            // it is for an operator
	values  context.Context // of the caller, if it has any
	answer  func(broken bool, err error)
}

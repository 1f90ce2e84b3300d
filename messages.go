package lockagent

import "time"

// Messages is a layer of a [Store]: it has messages for each agent. Without it, an agent learns what happened to
// its tenures by its calls. It then cannot resume the work of another process, because nobody tells whether a third one
// does so, too.
type Messages interface {
	// Listen calls hear with each message to the agent. The agent calls Listen once, before
	// anything else. Messages may be lost, late, and repeated. Whenever the store begins to
	// receive the messages, for the first time or after an interruption, hear gets a
	// [MessagesMissed]. hear must not block. The store may call hear once more after cancel
	// has returned.
	//
	// Each agent that is alive has an identity of its own. So whenever the store begins to receive the messages, it
	// finds out whether another agent listens under that identity. The other agent may be in another process, with
	// another Store. If there is one, hear gets a [MessageTwin] soon after the [MessagesMissed], and otherwise a
	// [MessageAlone]. An agent that is cut off from the store, or stopped, may be taken for one that is gone. When it
	// is back, one of the two gets a MessageTwin. A store of several nodes may send one to both, if neither came first
	// at all of them.
	Listen(agent AgentID, hear func(Message)) (cancel func())
}

// MessageKind says what a [Message] tells.
type MessageKind uint8

// The kinds of messages to an agent. The comment of each kind names the fields that it sets
// beside Kind, Name and Tenure.
const (
	_ MessageKind = iota
	// MessagePassed: a Release passed the lock to the tenure. The tenure begins at the
	// instant of that Release, with the lease [PassLease]. If the message is lost, the tenure
	// has the lock all the same: its next Acquire is granted. LockKind, Token, At, Clock,
	// Incarnation, Outsiders, Contested, Total, Unconfirmed, Trace.
	MessagePassed
	// MessageStandby: the lock may be free after AskAfter, and no message says so. Most often a
	// Release passed the lock to a tenure ahead of this one in the queue, and AskAfter is its lease:
	// the agent of that tenure may hang. If AskAfter is 0, the tenure should ask at once. AskAfter.
	MessageStandby
	// MessageWanted: another agent waits for the lock that this tenure has. The store sends it at every Acquire that
	// asks for a place, or contends for a [SpinLock], and finds the lock busy: to every tenure that shares the lock, or
	// to some of them. Of a semaphore, it sends the message for the first place alone, to the agents of some tenures
	// that have permits. [RenewReply].Contested tells the others. LockKind.
	MessageWanted
	// MessageBroken: a Break ended the tenure. At, Operator. At is that of the [BreakReply], or earlier if the
	// store has several clocks.
	MessageBroken
	// MessageAlone: no other agent that is alive listens under the identity of this one, as far as the store can find
	// out. Tenure and Name are empty.
	MessageAlone
	// MessageTwin: another agent that is alive listens under the identity of this one, and came first. So this one
	// ends, and makes no further call for a tenure. Tenure and Name are empty.
	MessageTwin
	// MessagesMissed: earlier messages may have been lost. Tenure is empty. So is Name, unless they are only those to
	// waiters of that lock: MessagePassed and MessageStandby. LockKind.
	MessagesMissed
)

// Message is news for one agent about one of its tenures.
type Message struct {
	Kind     MessageKind
	Name     Name
	LockKind LockKind // empty for a plain lock
	Tenure   Tenure

	Token       Token         // of the first hold
	At          StoreTime     // when the store decided
	Clock       string        // as in AcquireReply
	Incarnation string        // as in AcquireReply
	Outsiders   int           // as in AcquireReply
	Contested   bool          // as in AcquireReply; only for MessagePassed
	Total       int           // as in AcquireReply
	AskAfter    time.Duration // only for MessageStandby
	Unconfirmed bool          // the store does not vouch for the pass yet, see ReplicasError: make an Acquire first
	Trace       string        // as in ReleaseRequest; only for MessagePassed
	Operator    string        // as in BreakRequest; only for MessageBroken
}

package lockagent

// Rests is a layer of a [Store] that has a [Queue]: an agent may keep a lock between two holds, until another agent
// wants it. Without it, nothing rests: an agent gives a lock back when the last hold ends.
//
// # In an AcquireRequest
//
// Rests asks for a tenure that may rest: its agent may keep the lock between two holds. See [AcquireReply].Rests.
//
// # In an AcquireReply
//
// Rests says of a tenure that was granted: it asked to be one that may rest, and is. Only a tenure of a plain or fenced
// lock may rest. A tenure that begins may rest if no other one has a place in the queue, and no outsider waits. If the
// agent has no identity of [NewAgentID], the store may let none rest. A tenure that has the lock already stays as it
// is. A Renew makes it one that does not rest. Whenever a tenure that may rest keeps an Acquire of another agent from
// the lock, the store sends a [MessageWanted] to its agent, also if that Acquire asks for no place. The agent then
// gives the lock back as soon as nobody holds it.
//
// HolderRests says, if the request was not granted, that the holder may rest, and that its agent has been sent that
// message. So it may pay to try again soon. A store without a queue has no tenures that rest.
type Rests interface {
	// Rests reports whether tenures may rest. It never blocks, and the answer does not change.
	Rests() bool
}

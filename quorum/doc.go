// Package quorum makes one [lockagent.Store] of an odd number of independent ones, its nodes. A
// tenure has the lock when a majority of the nodes has granted it. So the lock works, and stays
// exclusive, while any minority of the nodes is down, slow, cut off, or has lost its data.
//
// # Usage
//
//	var nodes []lockagent.Store
//	for _, url := range urls { // of 3 servers that do not replicate each other
//		node, err := redisstore.Open(ctx, url)
//		...
//		nodes = append(nodes, node)
//	}
//	store, err := quorum.Open(nodes...)
//	...
//	defer store.Close() // closes the nodes
//	locks, err := channelapi.New(channelapi.Config{Store: store})
//
// All programs need the same nodes and the same [Config]. The order of the nodes does not matter.
//
// # How it works
//
// Every call goes to all nodes at once, and is answered as soon as their answers decide it. A node
// that is dead delays nothing unless its vote is needed. It then counts as silent after
// [Config.NodeTimeout].
//
//	Acquire   ask all -> a majority granted: token = the greatest of theirs
//	                  -> ask again, with the token as an exact floor, where the token was smaller
//	                  -> a majority granted and knows the token: granted
//	Renew     a majority still has the tenure: held; the others are asked to take it up again
//	          a majority has it no more: over
//	Release   done at a majority; the others follow
//
// An attempt that fails gives back what it was granted. A node that did not answer it may grant it
// late. If the agent was told that the lock is busy, it may never ask for that tenure again. So the
// tenure is withdrawn at that node as soon as the call has ended. When too many nodes have withdrawn
// the tenure, the error is [lockagent.ErrWithdrawn], and the agent goes on with another number. The
// withdrawal is tried twice. If both fail, the late grant ends with its lease. It does no harm before
// either: it is the vote of a minority.
//
// Votes are split when several agents ask at once. All give back what they have, and try again after
// random pauses, which grow with each failure in a row. They do the same when no majority answers: what
// one gives back wakes the others.
//
// Nobody tells a holder that other agents wait, because the nodes are asked as stores without queues. So
// [lockagent.Grant.Wanted] knows of owners of the same agent only.
//
// # Guarantees
//
// The store passes package storetest, as a store without a queue, for locks of the kind
// [lockagent.PlainLock]. Below, the proofs that it is one lock.
//
// One tenure at a time. Each node is one lock, so it has one tenure at a time. Two tenures that both
// have a majority would meet at a node. But the agent of a tenure acts on what nodes told it a while
// ago. Its deadline counts from the instant before the call, and every node of the majority began to
// count its lease after that instant. So at the deadline all of them still have the tenure, if their
// clocks run at about the same rate as the agent's. The margin between deadline and lease is for
// clocks that do not, just as with a single store. Hence a quorum asks the nodes for just the lease
// that it was asked for. It refuses a grant when so much time has passed that leases may be over,
// with a margin of a hundredth.
//
// What nodes forget. A node may have forgotten a tenure that counts on it: after a restart or a
// failover, or when its clock was set forward. Such a node gets no vote for an Acquire until
// [Config.LongestLease] has passed, because all leases that it may have forgotten are over by then.
// A node tells since when it remembers ([lockagent.History].RemembersSince), so that holds for programs that
// start later, too. A new node looks like one that was emptied: see [Config.NewNodes].
// So a tenure that it has forgotten counts on it to the end. What the node says about a Renew counts,
// because it is the truth about the tenure that asks. If a majority of the nodes forgets, nothing is
// granted for that time, and [Store.OnReset] tells the agents, so that holders look after their
// tenures.
//
// Grace periods of the nodes. Package redisstore has them by default, see [lockagent.Grace]. They do not take the place
// of the rule above: other stores have none, none follows a step of the clock, and a node that has forgotten everything
// waits for a moment only if the first who reaches the node did not know it before. Nor do they add to the time without
// a vote: a period lasts until the longest lease in use is over, counted from the same reset. It does not end earlier,
// because nobody tells a node that an agent has come back. Meanwhile a renewal puts a tenure back at the node. So a
// hold goes on even if a majority of the nodes has forgotten it.
//
// Repair. While a majority has a tenure, nobody else can have one. So another node may take the tenure
// up again, and counts from then on. Without a majority nothing is repaired. An operator may have
// broken the lock, and another may have held it.
//
// Tokens grow. Let A be granted before B, and let W be the majority that knew A's token when A was
// granted. B has a majority, too, so some node of W granted B. It granted A before, and A had ended
// there. A's tokens are below the clock of that node by then:
//
//   - if A was released there, the Release told the last token;
//   - if A was broken or its lease was over, the clock had reached A's first token while A had the
//     node, and it has moved on since. A hold takes longer than a microsecond.
//
// B's own token there is above the clock, and B's token is not below it. The proof needs W: the
// greatest tokens of two majorities need not grow by themselves if clocks differ. A node that is
// not in W, whose clock may be behind, is not told the last token: it would set its clock too far.
//
// The floor is exact ([lockagent.AcquireRequest].Exact): the clocks of the nodes follow the fastest
// of them, and do not overtake it. A clock that is ahead of the others by about a day or more gets no
// vote.
//
// Times. The time of a grant is its token. That of any other answer is a bound that no later grant is
// below. So an audit sees no overlap that was none. It may miss one that is shorter than the
// difference between the nodes' clocks. There is no name of a clock: the difference of two times is
// no duration.
//
// Replicas. A node with replicas of its own may demand that they know of a tenure, as package redisstore does with
// MinReplicas. A node whose replicas do not know of it does not count for the majority. [lockagent.Grant.Replicas] is
// the least number among the nodes that counted. If a majority of the nodes says [lockagent.ErrTooFewReplicas], so does
// the quorum.
//
// # Not guaranteed
//
//   - One of two agents with one identity. A single node where another agent came first ends an agent, because any two
//     majorities have a node in common. So if two such agents start at the same moment, and each is first at another
//     node, both end. No lock is held twice then.
//   - Order. There is no queue. All waiters try when they are woken, and any of them is first.
//   - A clock that was set forward before a program started: the program
//     cannot know that leases ended early, and a server looks older than it is.
//   - A server that comes back with a part of its data. Until the connections to it are made anew, and the store has
//     looked, a program takes it for the same. That takes some milliseconds. Redis should lose everything, or nothing
//     (appendonly yes, appendfsync always).
//   - A program with [Config.NewNodes] that starts after a node lost its data.
//   - A break that reaches only some of the nodes. If it is no majority, the lock is still held. The
//     holder looks, and the tenure is repaired.
//   - Clocks that differ by more than a tenth of a second. The first attempt sets those that are behind. A
//     store on Redis reports that as a step of the clock, and the node is without a vote for
//     LongestLease. Later grants keep the clocks together.
//   - More. What a single store does not guarantee, a quorum does not either: see the README. A process
//     that was paused may act after its lease. Only a resource that checks the token is safe from that.
//
// # Concurrency
//
// A Store is safe for concurrent use, and serves one agent. It has no goroutine of its own: the
// nodes' answers and timers drive it. It calls no function while it holds its mutex.
//
// # Testing
//
// Nodes in memory (package memstore) can be cut off, emptied and delayed. A quorum of them runs in
// virtual time.
package quorum

// Package script is what a store does inside of Redis: its Lua scripts, its keys and
// channels, and the messages to agents. It knows Redis' commands, and nothing of connections.
//
// # Usage
//
//	room, past := script.Single, script.Past{}
//	var c script.Call
//	room.Acquire(&c, requests, past)
//	reply := ...                                  // EVALSHA c.Script.Digest, c.Keys, c.Args
//	outcomes := make([]script.Outcome[lockagent.AcquireReply], len(requests))
//	err := room.ReadAcquired(reply, past, outcomes)
//	past.Note(outcomes[0].Reply.At, outcomes[0].Reply.Token)
//
// Each kind of call has a method of [Room] that writes it and a function that reads its reply.
// A reply is the text of a string, or of an integer. It is believed only if all of it is
// understood. For an error reply there are [Refused], which makes an error of package lockagent of
// its text, [Apart] and [Several], which tell whether to make the call in another way.
//
// # Keys
//
// For a lock called N, in its hash slot. A name that has a "{" is not wrapped: its keys end
// with "::a{b}", and the channels that Redisson has with ":a{b}".
//
//	key or channel              what                                          lives
//	N                           hash: <agent>:<number> = 1                    for the lease
//	lockagent_queue:{N}         zset: the tenures that wait, by arrival       5 minutes
//	lockagent_notes:{N}         zset: withdrawn tenures by when, and "yield"  1 minute
//	                            with until when outsiders go first
//	lockagent_turn:{N}          passes since the outsiders' turn              250 ms
//	redisson_lock__channel:{N}  channel: "0" at every release that frees
//	lockagent_agents:{N}        channel: nothing. Agents that subscribe to the one
//	                            above subscribe to this one first: who does not
//	                            is an outsider
//	lockagent_incarnation       channel: a message when the database has a new incarnation
//	lockagent_agent:<agent>     channel: the messages to an agent. With sharded
//	                            messages "passed" and "standby" come on
//	                            lockagent_agent:<agent>:{N}
//
// For all locks together, or in a Cluster for those of one slot, with the slot's tag:
//
//	lockagent_clock             zset: the name of the incarnation, or "-" in a  for ever
//	                            Cluster, with the greatest time or token
//	lockagent_ahead             by how many microseconds the clock is ahead of  for ever
//	                            the server's; normally not there
//
// # The clock
//
// A tenure begins at T, which is also its first token:
//
//	now = max(the server's time + ahead, the clock)
//	T   = max(now, the clock + 1, the greatest time or token that the agent knows + 1)
//
// If T is more than 100 microseconds after the server's time + ahead, the server's clock was set back,
// or is behind. Then T is a minute later, because a tenure may have taken tokens since the clock last
// was raised, and ahead becomes what T is ahead of the server's time. So the clock goes on at its own
// pace, for good: a tenure whose lease is long may take tokens at that pace. From then on an acquire
// runs two more commands. Every time in a reply is on this clock. Acquires, passes and renewals raise
// it, and so does a release that tells of a token above it. A release does not read it: its time is not
// before any that the agent has seen.
//
// # Where keys cannot travel together
//
// A slot of a Cluster that moves to another node serves commands with one key only. There the calls
// whose name ends with Alone go through: the lock is the only key that they declare, as in the
// scripts of Redisson. They read of our own keys what they can reach, and make none, because a
// key that is made at one node would keep the same key from moving there. So there are no places
// in a queue, no passes and no tombstones then. A break and an inspection are like that everywhere.
//
// The node that imports the slot cannot reach the clock either. If the time of that node is behind
// what the agent knows by at most 100 ms, the agent has to wait until it has caught up. If it is
// further behind, the agent's tokens follow the greatest that it knows. The clock does not know of
// these tokens: a [Past] takes note of them as Seen and not as Given, and the release tells them.
//
// # Concurrency
//
// A [Call] is for one goroutine at a time. Everything else is safe for concurrent use.
package script

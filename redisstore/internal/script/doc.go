// Package script is what a store does inside of Redis: its Lua scripts, its keys and
// channels, and the messages to agents. It knows Redis' commands, and nothing of connections.
//
// # Usage
//
//	var c script.Call
//	script.Single.Acquire(&c, requests, incarnation)
//	reply := ...                                           // EVALSHA c.Script.Digest, c.Keys, c.Args
//	outcomes := make([]script.Outcome[lockagent.AcquireReply], len(requests))
//	err := script.ReadAcquired(reply, incarnation, outcomes)
//
// Each kind of call has a method of [Room] that writes it and a function that reads its reply.
// A reply is the text of a string, or of an integer. It is believed only if all of it is
// understood. The errors of package lockagent are the only ones: [Refused] makes them of the
// text of an error reply.
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
//	lockagent_turn:{N}          passes since the outsiders' turn              1 second
//	redisson_lock__channel:{N}  channel: "0" at every release that frees
//	lockagent_watch:{N}         channel: nothing. Agents that subscribe to the one
//	                            above subscribe to this as well: who does not
//	                            is an outsider
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
//	now = the server's time + ahead
//	T   = max(now, the greatest time or token + 1, floor + 1)
//
// If T is more than 100 microseconds after now, the server's clock was set back or is behind a
// floor. Then ahead becomes what T is ahead of the server's time, so the clock goes on at its own
// pace. Every time in a reply is on this clock.
//
// # Where keys cannot travel together
//
// A slot of a Cluster that moves to another node serves commands with one key only, and some
// services that look like one server have several. [Apart] knows their errors. There the calls
// whose name ends with Alone go through: the lock is the only key that they declare, as in the
// scripts of Redisson. They reach for our own keys as well, and do without those that are
// elsewhere. While a slot moves they make no key of our own, because it may exist at the other
// node. So there are no places in a queue, no passes and no tombstones then, and tokens depend
// on the clocks of the two nodes.
//
// # Concurrency
//
// A [Call] is for one goroutine at a time. Everything else is safe for concurrent use.
package script

// Package script has the part of a store that runs inside of Redis: its Lua scripts, its keys and
// channels, and the messages to agents. It knows the commands of Redis, and nothing of connections.
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
// A reply is the text of a string, or of an integer. If a function does not understand all of a
// reply, it returns an error. Two functions are for the text of an error reply: [Refused] makes an
// error of package lockagent of it. [Several] tells whether to make the call once more for each lock.
//
// # Keys
//
// The documentation of package redisstore lists all keys and channels. A name with a "{" is not wrapped. For
// the lock "a{b}", our own keys and channels end with "::a{b}", and those of Redisson with ":a{b}".
//
// # The clock
//
// A tenure begins at T, which is also its first token:
//
//	now = max(the server's time + ahead, the clock)
//	T   = max(now, the clock + 1, the greatest time or token that the agent knows + 1)
//
// If T is more than 100 microseconds after the server's time + ahead, the server's clock was set back,
// or is behind. Then T is a minute later, because tenures may have taken tokens since the clock was
// last raised. ahead becomes the difference of T and the server's time. It stays, because a tenure
// with a long lease may take tokens at the pace of the clock. From then on an acquire runs two more
// commands.
//
// Every time in a reply is on this clock. Acquires, passes and renewals raise it, and so does a
// release that tells of a token above it. The short way of a release does not read it: the functions that read replies
// replace an earlier time by the greatest that the agent has seen.
//
// # While a slot moves
//
// While a slot of a Cluster moves to another node, its keys are at two nodes. A node refuses a script if it lacks one
// of several keys that the call declares. Scripts that use more keys than these end with an error, see still.lua. So an
// acquire, a release or a break fails without an effect, and the agent makes it again. A renewal declares the lock and
// the clock. It goes on until one of the two moves, and after both have. That of a reader also needs the reader's keys.
// An inspection declares only the lock.
//
// # Parts
//
// A script is made of its own file and of parts, which it names in lines that begin with --include. A part has
// functions. A function reads only its arguments, and the locals call and pcall of the script, which are redis.call
// and redis.pcall. The comment above the function tells its inputs and outputs.
//
//	clock.lua, advance.lua             the clock: read it, move it on, the token of a tenure that begins
//	holders.lua, kinds.lua             who has a lock, and as which kind
//	tenure.lua                         a tenure of a lock with one holder begins
//	ways.lua                           messages, and who listens
//	queue.lua, hand_on.lua             places, and passes
//	turns.lua, notes.lua               the turns of programs that know no queue
//	grace.lua                          the grace period of an incarnation, and the claims of those who come back
//	fence.lua, fair.lua, rw.lua, ...   what a kind has beside
//
// A script begins with its short way: what it does if it meets nobody. The short way is text, and has no functions. A
// server makes the functions of a script anew each time, which takes as long as the short way itself. For the same
// reason a script has only those functions of its parts that it uses.
//
// # Concurrency
//
// A [Call] is for one goroutine at a time. Everything else is safe for concurrent use.
package script

// Package claims keeps what the clients of a daemon hold, and what they wait for. A claim is a request of a client, and
// then its hold. The package knows neither how clients speak to the daemon nor what they may do.
//
// # How a claim lives and ends
//
//	Acquire --> waiting --> held --> ended
//	               |                   ^
//	               +-------------------+
//
// The [Stream] that Acquire returns is the claim: when it is closed, the claim ends. So a claim ends with the
// connection of its client. Another stream can take its place, by Attach. A claim that asked for it has no stream after
// its grant, and is detached. It lasts until it is released, until a process ends, or until nobody has renewed it for
// its time to live.
//
// A claim tells its stream what becomes of it. What nobody has read yet merges: a reader that is slow gets the newest
// deadline, and always the end.
//
// # Restart
//
// A claim is a record in the [Journal], and its request is in the part of the agent. The record comes first. The next
// daemon makes a book of the records, resumes the agent with [Book.Resumed], and serves when [Book.Begin] has returned.
// Each claim has its lock, token and place then, and waits for its client: for the grace, and no longer than until the
// deadline that the client knows. One whose process has ended is released at once. A detached claim goes on until its
// time has passed.
//
// While the journal cannot be written, nothing new is granted: the next daemon would not know of it.
//
// # Concurrency
//
// A [Book] is safe for concurrent use. A [Stream] has one reader, and anybody may close it. One mutex guards all
// claims. It is never held while the agent is called, because the agent calls back. The quotas are asked while it is
// held: they call nobody.
//
// No claim costs a goroutine, except one that is bound to a process.
package claims

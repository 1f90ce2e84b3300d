// Package follow has the rules of whoever has claims on a daemon. Package agentclient follows all claims of a process
// over one link. The program lockagent follows one claim over one connection, which its command can inherit. Clients in
// other languages do well to keep the same rules:
//
//   - A claim outlasts its daemon. A client whose connection has ended asks again after a [Pause], and so does one that
//     is refused by a daemon that is about to leave: see [Claim.Again].
//   - A claim that holds its lock is attached to, by its id and its secret. One that waits is asked for again with the
//     same secret. A daemon that knows the secret, perhaps from the daemon before, goes on with the claim of that
//     secret.
//   - Until the daemon has said something of a hold, the deadline of the hold stands. At its deadline the hold is lost,
//     whatever the daemon does.
//   - If the daemon does not know a claim that held its lock, or tells another token of it, the lock is lost.
//   - Deadlines are instants of the boot clock. A client that does not have the clock of the daemon cannot hold a lock.
//
// For how long a client asks again is its own affair. A program that tries for a lock hears at once that the daemon is
// away, and a program that waits bounds its wait itself. A command line waits for the daemon on behalf of its user.
package follow

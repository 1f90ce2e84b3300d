// Package access decides what a client of the daemon may do: with which locks, and how much at once.
//
// Rules are about names. The first [Rule] that is for the client and for the name counts, and what it does not
// allow is refused. Without rules, the user of the daemon and root may do everything, and others nothing.
//
// Limits are about numbers: of each user, whoever it is, and of all users. Whoever gives something asks
// [Access.Quotas].
//
// Every refusal is counted, and told once for each user and reason in a minute.
//
// The package is pure: it asks nobody for users, groups or the time, and it writes nothing.
//
// # Concurrency
//
// An [Access] is safe for concurrent use.
package access

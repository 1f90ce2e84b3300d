// Package audit says whether the records of a log prove that no two holds of a lock overlapped.
//
// # Usage
//
// An [Audit] judges a log as it grows, and makes a [Report] of it at any time. It takes the records of all agents, of
// each agent in its order, and gives them to a [fold.Fold]. An [Independent] is a second opinion on a log that is
// complete. The page docs/audit.md says what a verdict means.
//
// # Guarantees
//
// The verdict is [Proven] only if no record is missing that could tell of an overlap. What an [Audit] keeps in memory
// depends on the agents and on what is held, and not on the length of the log.
//
// # Not guaranteed
//
// An agent that lies without a contradiction is believed.
//
// # Concurrency
//
// None of the types may be used by two goroutines at the same time.
//
// # Testing
//
// Logs of random histories, of which the truth is known, are altered in every field of every kind of record.
package audit

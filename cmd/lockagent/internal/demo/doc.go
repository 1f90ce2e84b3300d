// Package demo shows that the locks work: agents with many workers contend for a
// few locks, and what they did is checked twice.
//
// # Usage
//
// [Run] runs a demonstration and returns its [Summary]. Agents that are to be
// processes of their own are started by [Config.Command], and run [Join].
//
// # What is checked
//
// Each lock protects a counter. A worker that was granted the lock reads the
// counter, thinks, and writes it back one greater. The counter learns the token
// of the grant at the read, and from then on refuses everything that comes with an
// older one. If every write that was accepted is in the counter in the end, no two
// workers were ever between their read and their write at the same time.
//
// The agents publish their events. When all of them have ended, their log is read
// back and audited: the second, independent proof, which also shows when and why
// holds overlapped if they did.
//
// # Not guaranteed
//
// A demonstration is not a benchmark: the agents, their event log and often the
// store share one machine, and the workers think.
package demo

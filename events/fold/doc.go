// Package fold makes the state of all locks of the records of a log: who holds what, who waits for whom, and how each
// hold ended.
//
// # Usage
//
// Give each record to [Fold.Apply], and look at what it has changed, or read the state of a lock with [Fold.Lock]. A
// [Fold.Snapshot] lets another process go on. A [Watcher] follows the fold step by step: an audit does.
//
// # Guarantees
//
// A fold of a log without its beginning knows each hold that goes on when the log has told so again. What it keeps in
// memory depends on what is held and wanted, and on the agents of the last hour, but not on the length of the log.
//
// # Not guaranteed
//
// A fold judges nothing: it has the holds that the log tells of, even if two of them cannot both be true. Whether the
// holds of a log may have overlapped says package [github.com/lockagent/lockagent/events/audit].
//
// # Concurrency
//
// A [Fold] must not be used by two goroutines at the same time.
//
// # Testing
//
// Records that nobody would write are applied, and the changes that are told must add up to the state. The histories of
// the audit's tests are folded there.
package fold

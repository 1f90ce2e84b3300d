// Package journal keeps the file from which the next daemon learns what this one held.
//
// # Usage
//
// [Open] reads what the daemon before has left, for [github.com/lockagent/lockagent/actor.Resume]. Give the Journal to the new agent, in its
// Config. The agent then replaces the file, and adds to it. The daemon adds its own records with [Journal.Put] and
// [Journal.Drop]: its claims. All records keep their order.
//
// # The file
//
//	magic, format                   12 bytes
//	frame: header                   the agent, when the file was made, and in which boot of the machine
//	frame: an entry, or a record    as often as it takes
//
//	frame: length, checksum of the payload, checksum of these two, payload
//
// A file begins with a snapshot: one entry for each lock, and all records. When the file is larger than twice its snapshot, and
// at least 1 MiB, a new file with a new snapshot replaces it. That happens in the background, and writes go on meanwhile.
//
// # Guarantees
//
//   - When a due entry was written, SIGKILL does not lose it. A power cut may. Then the clients have ended, too.
//   - A process may be killed at any instant. It leaves the old file or the new one, and at the end of it perhaps a part of a frame,
//     which nobody acted upon.
//   - A damaged file is an error, and stays as it is. So does the file of a newer version.
//   - A file that cannot be written is no obstacle to the agent. [Journal.Err] tells, and the journal tries again. The first thing that
//     it writes then is a snapshot. Until then holds are renewed without it, so a deadline in a file is a lower bound.
//
// # Not guaranteed
//
// Only snapshots are synced. After a power cut the end of the file may be damaged. So of a file from another boot everything before
// the damage counts, and is withdrawn in any case.
//
// Nothing in this package keeps two daemons from writing one file. The lock of the state directory does.
//
// # Concurrency
//
// A Journal is safe for concurrent use.
package journal

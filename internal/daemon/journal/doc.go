// Package journal keeps the file from which the next daemon learns what this one held.
//
// # Usage
//
// A journal is a map of records. [Open] reads the one of the daemon before, for
// [github.com/lockagent/lockagent/actor.Resume]. Give the Journal to the new agent, in its Config. The agent then
// replaces the file, and adds its changes. The daemon adds records of its own with [Journal.Put] and [Journal.Drop]:
// its claims. All changes keep their order.
//
// # The file
//
//	magic, format    12 bytes
//	frame: header    the boot of the machine in which the file was made
//	frame: changes   as often as it takes: records that take the place of those with their keys, and ends of records
//
//	frame: length, checksum of the payload, checksum of these two, payload
//
// A file begins with all records. When it is larger than twice that, and at least 1 MiB, a new file with all records
// replaces it. That happens in the background, and writes go on meanwhile.
//
// # Guarantees
//
//   - When a due change was written, SIGKILL does not lose it. A power cut may. Then the clients have ended, too.
//   - The changes of one call of Write are one frame. So all of them are in the file, or none.
//   - A process may be killed at any instant. It leaves the old file or the new one, and at the end of it perhaps a
//     part of a frame, which nobody acted upon.
//   - A damaged file is an error, and stays as it is. So does the file of another version.
//   - A file that cannot be written is no obstacle to the agent. [Journal.Err] tells, and the journal tries again. It
//     writes all records then. Until then holds are renewed without it, so a deadline in a file is a lower bound.
//
// # Not guaranteed
//
// Only a new file is synced, with what it begins with. After a power cut the end of the file may be damaged. So of a
// file from another boot everything before the damage counts, and is withdrawn in any case.
//
// Nothing in this package keeps two daemons from writing one file. The lock of the state directory does.
//
// # Concurrency
//
// A Journal is safe for concurrent use.
package journal

//go:build race

package events

// rehearsal says that the longest tests do a part of their work. Each is one goroutine, in which the race detector
// finds nothing, but takes up to 40 times as long. make test runs them without the detector, and then they do all of it.
const rehearsal = true

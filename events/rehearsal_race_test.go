//go:build race

package events

// rehearsal says that the longest tests do a part of their work. Each is one goroutine, so the race detector
// finds nothing in it. It takes up to 40 times as long with the detector. make test also runs them without, and then they do all of it.
const rehearsal = true

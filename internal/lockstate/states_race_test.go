//go:build race

package lockstate

// The exploration is one goroutine, in which the race detector finds nothing but takes its time.
const defaultStates = 3_000

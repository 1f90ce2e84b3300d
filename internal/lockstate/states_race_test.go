//go:build race

package lockstate

// Each exploration is one goroutine, in which the race detector finds nothing but takes its time.
// So this is a rehearsal, and make test explores without the detector.
const defaultStates = 300

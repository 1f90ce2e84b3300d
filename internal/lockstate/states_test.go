//go:build !race

package lockstate

// As many as a test has patience for, see the package documentation.
const defaultStates = 30_000

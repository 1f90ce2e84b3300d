//go:build race

package actor

// The race detector makes a seed four times as slow. make test runs all seeds without it.
const soakSeeds = 2

//go:build race

package actor

// What two seeds do not do, eight do not either, as far as the race detector can tell. It makes them
// four times as long, so make test runs all of them without it.
const soakSeeds = 2

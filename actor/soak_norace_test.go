//go:build !race

package actor

const soakSeeds = 8

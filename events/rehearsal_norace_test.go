//go:build !race

package events

const rehearsal = false

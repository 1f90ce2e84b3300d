package script

import (
	_ "embed"

	"github.com/lockagent/lockagent"
)

//go:embed spin_acquire.lua
var spinAcquireSource string

//go:embed spin_release.lua
var spinReleaseSource string

var (
	spinAcquireScript = newScript(spinAcquireSource)
	spinReleaseScript = newScript(spinReleaseSource)
)

// AcquireSpin is [Room.Acquire] for spin locks, see spin_acquire.lua.
func (r Room) AcquireSpin(c *Call, requests []lockagent.AcquireRequest, past Past) {
	r.acquire(c, spinAcquireScript, requests, past, r.asks)
}

// ReleaseSpin is [Room.Release] for spin locks, see spin_release.lua.
func (r Room) ReleaseSpin(c *Call, requests []ReleaseRequest, past Past) {
	r.release(c, spinReleaseScript, "lockagent_queue", requests, past)
}

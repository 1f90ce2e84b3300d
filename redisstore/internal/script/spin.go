package script

import _ "embed"

//go:embed spin_release.lua
var spinReleaseSource string

var spinReleaseScript = newScript(spinReleaseSource)

// ReleaseSpin is [Room.Release] for spin locks, see spin_release.lua. [Single] reads the reply.
func (r Room) ReleaseSpin(c *Call, requests []ReleaseRequest, past Past) {
	r.Release(c, requests, past)
	c.Script, c.Args[0] = spinReleaseScript, Single.String()
}

// ReleaseSpinAlone is [Room.ReleaseSpin] for a lock whose keys cannot travel together.
func (r Room) ReleaseSpinAlone(c *Call, request *ReleaseRequest) {
	r.ReleaseAlone(c, request)
	c.Script, c.Args[0] = spinReleaseScript, Single.String()
}

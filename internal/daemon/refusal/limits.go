package refusal

// Bounds of what a client may say about a claim. The daemon refuses more, and clients keep to them.
const (
	MaxHolds   = 64  // of a claim, one after the other
	MaxSession = 128 // bytes of a session
	MaxWorkers = 16  // processes that work under a claim
)

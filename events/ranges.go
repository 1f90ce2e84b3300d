package events

// Range is the sequence numbers from First to Last.
type Range struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
}

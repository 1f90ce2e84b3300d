package access

// Limits bound what each user has at once. 0 is no bound.
type Limits struct {
	Claims  int // claims, whether they are granted or wait
	Waiters int // claims that wait
	Streams int // streams, also those that only watch
	NameLen int // bytes in the name of a lock
}

// Limits returns the limits that count now. Whoever has the claims and the streams counts them, and tells the refusals: see
// [Access.Refused].
func (a *Access) Limits() Limits { return a.policy.Load().limits }

package access

// Limits bound what each user has at once. 0 is no bound.
type Limits struct {
	Claims      int // claims, whether they are granted or wait
	Waiters     int // claims that wait
	Streams     int // streams, also those that only watch
	Watches     int // streams that only watch
	Connections int // connections
	NameLen     int // bytes in the name of a lock

	Numbers int // semaphores and latches in the memory of the daemon, of all users together
}

// Limits returns the limits that count now. Whoever has the claims and the streams counts them, and tells the refusals:
// see [Access.Refused].
func (a *Access) Limits() Limits { return a.policy.Load().limits }

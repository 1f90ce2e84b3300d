package channelapi

// FairLock is [Locks.Lock] for a fair lock. Its requests are granted in the order in which they reached
// the store, from all processes. Nobody overtakes: neither a request of the process that has the lock, nor
// one that comes when the lock is free while others wait. A process that dies loses its places at once,
// or after some seconds if only programs with Redisson notice.
//
// It costs more than a plain lock: every grant goes through the store. Two requests of one process never
// hand the lock to each other.
//
// A name stands for one kind of lock. See [lockagent.FairLock] for the other programs in the queue.
func (l *Locks) FairLock(name string, opts ...Option) *Lock {
	return &Lock{newHandle(l, nil, name, fairLock, opts)}
}

// FairLock is [Session.Lock] for a fair lock, see [Locks.FairLock]. A session that holds the lock acquires it
// again at once.
func (s *Session) FairLock(name string, opts ...Option) *SessionLock {
	return &SessionLock{newHandle(s.locks, s, name, fairLock, opts)}
}

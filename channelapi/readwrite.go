package channelapi

// ReadLock returns a handle of the read lock with that name: one half of a read/write lock. Many may
// hold the read lock at once, in all processes, while nobody holds the write lock. All readers of these Locks
// share one lease in the store. So a reader that joins others costs no call of the store.
//
// Readers who come and go keep no writer out. A reader who comes while a writer waits is granted the
// lock after that writer. [Locks.Lock] documents handles and options.
func (l *Locks) ReadLock(name string, opts ...Option) *Lock {
	return &Lock{newHandle(l, nil, name, reading, opts)}
}

// WriteLock returns a handle of the write lock with that name: the other half of the read/write lock, see
// [Locks.ReadLock]. Whoever holds the write lock is alone.
func (l *Locks) WriteLock(name string, opts ...Option) *Lock {
	return &Lock{newHandle(l, nil, name, writing, opts)}
}

// ReadLock is [Locks.ReadLock] for the session. While the session holds the write lock, it is granted the read
// lock at once. It may then release the write lock and go on reading: this is the downgrade, and lets other
// readers in.
func (s *Session) ReadLock(name string, opts ...Option) *SessionLock {
	return &SessionLock{newHandle(s.locks, s, name, reading, opts)}
}

// WriteLock is [Locks.WriteLock] for the session. If the session holds the read lock only, the error is
// [ErrUpgrade], at once: the session would wait for itself. The same error answers a request that waits,
// when another request of the session is granted the read lock.
func (s *Session) WriteLock(name string, opts ...Option) *SessionLock {
	return &SessionLock{newHandle(s.locks, s, name, writing, opts)}
}

package channelapi

// SpinLock is [Locks.Lock] for a lock without messages, as a spin lock of Redisson: who waits asks the store again
// after 1 ms, 2 ms and so on, up to 128 ms, and begins anew when another holder has got the lock. A lock that is seldom
// held, and not for long, then costs no subscription. There is no queue: whoever asks first gets the lock.
func (l *Locks) SpinLock(name string, opts ...Option) *Lock {
	return &Lock{newHandle(l, nil, name, spinLock, opts)}
}

// SpinLock is [Locks.SpinLock] for the owner of the session.
func (s *Session) SpinLock(name string, opts ...Option) *SessionLock {
	return &SessionLock{newHandle(s.locks, s, name, spinLock, opts)}
}

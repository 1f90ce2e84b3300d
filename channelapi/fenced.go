package channelapi

// FencedLock is [Locks.Lock] for a lock whose tokens grow together with those of a RFencedLock of
// Redisson: each [lockagent.Grant.Token] is greater than every token that either side was given before.
// So one resource can check the tokens of both. Between locks of ours alone, [Locks.Lock] does as much.
func (l *Locks) FencedLock(name string, opts ...Option) *Lock {
	return &Lock{newHandle(l, nil, name, fencedLock, opts)}
}

// FencedLock is [Locks.FencedLock] for the owner of the session. A re-entry has the token of the hold.
func (s *Session) FencedLock(name string, opts ...Option) *SessionLock {
	return &SessionLock{newHandle(s.locks, s, name, fencedLock, opts)}
}

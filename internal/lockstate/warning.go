package lockstate

// What a holder may want to know while it holds the lock. Neither ends the hold.

// Wanted reports whether somebody waits who cannot have the lock while it is held as it is: another owner here, or
// somebody of whom the store has told. A session that holds the lock does not wait for it. A request that does not wait
// is answered at once.
//
// Who waits may give up, and nobody says so. Then the answer stays true for the rest of an exclusive tenure, and until
// the next renewal of a shared one.
func (s *State) Wanted() bool {
	if s.requests.held.n == 0 {
		return false
	}
	waits := s.requests.waiting.n > 0 && !s.requests.shared()
	return s.tenure.wanted || waits || s.requests.writers > 0
}

// Uncertain reports whether a hold that depends on a renewal is over soon unless one succeeds: less than a third of the
// lease is left, and the last renewal has failed. Or the first one has no answer, and half of the time from its call to
// the deadline is over. That is false again when a renewal has succeeded.
func (s *State) Uncertain(id RequestID) bool {
	g := s.requests.findGrant(id)
	return g != nil && s.tenure.uncertain && (g.fixed == 0 || g.fixed > s.tenure.deadline)
}

// uncertainAt is when holds become uncertain if the present renewal goes on as it does, or never.
func (s *State) uncertainAt() Instant {
	t, r := &s.tenure, &s.renewal
	at := t.deadline.add(-s.cfg.trust(t.lease) / 3)
	switch {
	case t.uncertain || s.requests.held.n == 0:
		return never
	case r.failures > 0:
		return at
	case r.inFlight: // an extension may be late, but not in danger
		return max(at, r.sent.add(t.deadline.Sub(r.sent)/2))
	}
	return never
}

// Wanted is [State.Wanted]. All parts but the one that holds the lock wait for it.
func (f *Fair) Wanted() bool {
	holder := f.front()
	return holder.requests.held.n > 0 && (holder.Wanted() || f.part(func(p *State) bool {
		return p != holder && p.requests.waiting.n > p.requests.tries.n
	}) != nil)
}

// Uncertain is [State.Uncertain].
func (f *Fair) Uncertain(id RequestID) bool {
	return f.part(func(p *State) bool { return p.Uncertain(id) }) != nil
}

// Wanted is [State.Wanted]: somebody waits for more permits than are free. A part that has not found the semaphore busy
// may have its permits yet.
func (p *Permits) Wanted() bool {
	return p.part(func(s *State) bool {
		return s.Wanted() || s.attempt.busy != (busyness{}) && s.requests.waiting.len() > s.requests.tries.len()
	}) != nil
}

// Wanted is [State.Wanted]. Nobody holds a latch.
func (l *Latch) Wanted() bool { return false }

// Uncertain is [State.Uncertain]. Nobody holds a latch.
func (l *Latch) Uncertain(RequestID) bool { return false }

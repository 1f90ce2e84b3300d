package natslog

// sending is what left for the server at once: the messages of the outbox up to an index.
type sending struct {
	end  uint64
	done func(error)
}

// announce tells the hook what is about to be sent: the message with an index, and those behind
// it. It returns the index at which the next one begins.
func (s *sender) announce(index uint64) (end uint64) {
	o := &s.p.outbox
	s.p.mu.Lock()
	end = o.end()
	if !o.open {
		end = index + 1 // a session begins with one message
	}
	records := 0
	for i := index; i < end; i++ {
		records += len(o.at(i).Items)
	}
	s.p.mu.Unlock()
	if done := s.p.cfg.Sending(int(end-index), records); done != nil {
		s.p.mu.Lock()
		s.sendings = append(s.sendings, sending{end, done})
		s.p.mu.Unlock()
	}
	return end
}

// over takes out the sendings that the stream has. s.p.mu must be held, and must be free when
// they end.
func (s *sender) over() []sending {
	n := 0
	for n < len(s.sendings) && s.sendings[n].end <= s.p.outbox.first {
		n++
	}
	if n == 0 {
		return nil
	}
	over := s.sendings[:n:n]
	s.sendings = s.sendings[n:]
	return over
}

// giveUp ends what is left of a session that is over.
func (s *sender) giveUp(err error) {
	s.p.mu.Lock()
	left := s.sendings
	s.sendings = nil
	s.p.mu.Unlock()
	endSendings(left, err)
}

func endSendings(sendings []sending, err error) {
	for _, of := range sendings {
		of.done(err)
	}
}

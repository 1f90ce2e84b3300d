package lockstate

import "fmt"

// Step decides what c means at m, applies every event of that, and settles. do is
// called with each event right after it was applied; the event is only valid
// during the call. do may read the state but must not call Step.
func (s *State) Step(c Command, m Moment, do func(*Event)) {
	s.scratch = s.decide(c, m, s.scratch[:0])
	for i := range s.scratch {
		s.take(&s.scratch[i], m, do)
	}
	// Every round of settling shortens the queue or the list of grants, or moves
	// the tenure on; if not, the rules contradict each other.
	limit := 16 + 4*(s.queue.len()+len(s.holder.grants))
	for {
		e, ok := s.settle(m)
		if !ok {
			return
		}
		if limit--; limit < 0 {
			panic(fmt.Sprintf("lockstate: rules do not settle: phase %d, event %d", s.phase, e.Kind))
		}
		s.scratch = append(s.scratch[:0], e) // where it costs no allocation
		s.take(&s.scratch[0], m, do)
	}
}

func (s *State) take(e *Event, m Moment, do func(*Event)) {
	e.Now = m.Now
	s.apply(e)
	do(e)
}

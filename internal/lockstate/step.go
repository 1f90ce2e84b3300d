package lockstate

import (
	"fmt"
	"sync"
)

// Step decides what c means at m, applies every event of that, and settles. do is
// called with each event right after it was applied; the event is only valid
// during the call. do may read the state but must not call Step.
func (s *State) Step(c Command, m Moment, do func(*Event)) {
	space := spaces.Get().(*space)
	space.decided = s.decide(c, m, space.decided[:0])
	for i := range space.decided {
		s.take(&space.decided[i], m, do)
	}
	// Every round of settling shortens the queue or the list of grants, or moves
	// the tenure on; if not, the rules contradict each other.
	limit := 16 + 4*(s.queue.len()+len(s.grants))
	for s.settle(m, &space.settled) {
		if limit--; limit < 0 {
			panic(fmt.Sprintf("lockstate: rules do not settle: phase %d, event %d", s.phase, space.settled.Kind))
		}
		s.take(&space.settled, m, do)
	}
	clear(space.decided)
	space.settled = Event{}
	if cap(space.decided) <= retainedEvents {
		spaces.Put(space)
	}
}

// space is where a step has its events. Steps share it, because most locks do
// nothing at a time.
type space struct {
	decided []Event
	settled Event
}

const retainedEvents = 64

var spaces = sync.Pool{New: func() any { return new(space) }}

func (s *State) take(e *Event, m Moment, do func(*Event)) {
	e.Now = m.Now
	s.apply(e)
	do(e)
}

package lockstate

import (
	"fmt"
	"sync"
)

// Step takes the command c, which arrived at m. It calls do with each event, right after
// the event was applied. The event is valid only during that call. do may read the state, but
// must not call Step.
func (s *State) Step(c Command, m Moment, do func(*Event)) {
	space := spaces.Get().(*space)
	space.decided = s.decide(c, m, space.decided[:0])
	for i := range space.decided {
		s.take(&space.decided[i], m, do)
	}
	// Every round of settling shortens the queue or the list of grants, or moves the tenure
	// on. If the rounds do not end, the rules contradict each other.
	limit := 16 + 4*s.requests.len()
	for s.settle(m, &space.settled) {
		if limit--; limit < 0 {
			panic(fmt.Sprintf("lockstate: rules do not settle: phase %d, event %d", s.phase, space.settled.Kind))
		}
		s.take(&space.settled, m, do)
	}
	if len(space.decided) > fewEvents {
		// A few events may stay until later steps overwrite them: they refer to texts and errors only.
		clear(space.decided)
	}
	if cap(space.decided) <= retainedEvents {
		spaces.Put(space)
	}
}

// space is the room for the events of a step. Locks share it, because at any time most
// locks do nothing.
type space struct {
	decided []Event
	settled Event
}

const (
	fewEvents      = 4
	retainedEvents = 64
)

var spaces = sync.Pool{New: func() any { return new(space) }}

func (s *State) take(e *Event, m Moment, do func(*Event)) {
	e.Now = m.Now
	s.apply(e)
	do(e)
}

package lockstate

import "time"

// Extend has the fixed lease of a grant begin anew, with another length. It never ends
// earlier for that. Extended tells until when it lasts. The hold can be trusted for so long
// when the deadline of the tenure has come as far, which a renewal sees to. A grant that is
// over, or whose lease is kept, is left as it is.
type Extend struct {
	ID    RequestID
	Lease time.Duration
}

func (Extend) command() {}

func (s *State) extend(c Extend, m Moment, out []Event) []Event {
	i := s.grants.find(c.ID)
	if i < 0 {
		return out
	}
	g := &s.grants[i]
	if g.fixed == 0 || m.Now >= s.deadline(g) { // settling tells the holder
		return out
	}
	return append(out, Event{Kind: Extended, Request: g.request, Fixed: max(g.fixed, m.Now.add(s.cfg.trust(c.Lease)))})
}

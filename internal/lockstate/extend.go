package lockstate

import "time"

// Extend starts the fixed lease of a grant anew, with another length. The lease never ends
// earlier than before. The [Extended] event tells its new end. A renewal moves the deadline of
// the tenure there, and then the hold can be trusted until that end. Extend does not change a
// grant that is over, or one whose request has a kept lease. The other holds of a session end with it. If another hold
// of the session keeps the lease, the new end counts when it does so no more.
type Extend struct {
	ID    RequestID
	Lease time.Duration
}

func (Extend) command() {}

func (s *State) extend(c Extend, m Moment, out []Event) []Event {
	g := s.requests.findGrant(c.ID)
	if g == nil || g.Lease == 0 || m.Now >= s.deadline(g) { // settling tells the holder
		return out
	}
	fixed := max(g.fixed, g.own, m.Now.add(s.cfg.trust(c.Lease)))
	if g.fixed == 0 {
		return append(out, extended(g, 0, fixed))
	}
	out = append(out, extended(g, fixed, 0))
	if g.Session && s.sessionEnd(g.Owner, c.Lease, nil, m.Now) != 0 {
		out = s.endTogether(g.Owner, fixed, g, m, out)
	}
	return out
}

// extended is the event that gives a grant another end, as [table.extend] does.
func extended(g *slot, fixed, own Instant) Event {
	return Event{Kind: Extended, Request: g.Request, Grant: Grant{Fixed: fixed, Own: own}}
}

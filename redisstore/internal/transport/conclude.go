package transport

import (
	"errors"
	"strings"
	"time"
)

// conclude answers a call. If the server refused it, and another server or another way may
// succeed, conclude has it made once more instead.
func (l *lane[I]) conclude(c *Call, reply Reply, began time.Time) {
	err := reply.Err()
	if err != nil && l.again(c, err, began) {
		return
	}
	if err == nil && c.Replicated {
		if err = c.uncounted; err != nil {
			l.lanes.servers.Doubt() // a master that is demoted answers no WAIT
		}
	}
	if err != nil {
		err = l.lanes.servers.failure(l.node, err)
	}
	c.Done(reply, err)
}

// again reports whether a call that failed is made once more.
func (l *lane[I]) again(c *Call, err error, began time.Time) bool {
	s := l.lanes.servers
	if errors.Is(err, errLeft) {
		// Nobody knows whether the call took effect. The lane finds out, so the caller who left fails nobody else.
		return l.lanes.resend(c, l.node)
	}
	answer := Refusal("")
	if !errors.As(err, &answer) {
		s.Doubt()
		return false
	}
	if c.tries++; c.tries == maxTries {
		return false
	}
	switch code, _, _ := strings.Cut(string(answer), " "); {
	case code == "CLUSTERDOWN", code == "LOADING":
		s.Doubt()
		return false
	case isStale(answer):
		s.Doubt()
		l.node.dialer.cut(began)
		to := s.Master(c.Slot)
		return c.tries == 1 && to != nil && l.lanes.resend(c, to)
	}
	to, moved := s.learn(l.node, string(answer))
	if to == nil {
		return false
	}
	c.asking = !moved
	return l.lanes.resend(c, to)
}

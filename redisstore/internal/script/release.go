package script

import (
	"github.com/lockagent/lockagent"
)

// ReleaseRequest is a [lockagent.ReleaseRequest] with one more fact.
type ReleaseRequest struct {
	lockagent.ReleaseRequest
	// Subscribed says that the server may count the store among the subscribers of the lock's
	// [Channel].
	Subscribed bool
}

// Release writes the call that releases locks, see release.lua. All requests are of one agent
// and, in a Cluster, of one slot.
func (r Room) Release(c *Call, requests []ReleaseRequest, past Past) {
	r.release(c, releaseScript, "lockagent_queue", requests, past)
}

func (r Room) release(c *Call, s *Script, queue string, requests []ReleaseRequest, past Past) {
	c.begin(s)
	var last lockagent.Token
	flagged := false
	for i := range requests {
		c.Keys = append(c.Keys, string(requests[i].Name))
		last = max(last, requests[i].Last)
		flagged = flagged || requests[i].flags() != ""
	}
	for i := range requests {
		c.Keys = append(c.Keys, c.text.own(queue, requests[i].Name))
	}
	c.Keys = append(c.Keys, r.shared(&c.text, "lockagent_ahead", requests[0].Name))
	if last <= past.Given {
		last = 0
	}
	c.Args = append(c.Args, r.String(), c.text.number(uint64(last)))
	for i := range requests {
		c.release(&requests[i])
		if flagged {
			c.Args = append(c.Args, requests[i].flags())
		}
	}
}

func (c *Call) release(request *ReleaseRequest) {
	c.Args = append(c.Args, c.text.tenure(request.Tenure), c.text.channel(request.Name))
}

func (r *ReleaseRequest) flags() (flags string) {
	switch {
	case r.Subscribed && r.Unanswered:
		flags = "su"
	case r.Subscribed:
		flags = "s"
	case r.Unanswered:
		flags = "u"
	}
	if r.Unanswered && r.Last == 0 {
		flags += "n"
	}
	if r.Trace != "" {
		flags += "t" + r.Trace
	}
	return flags
}

// ReadReleased reads the reply to a call that releases as many locks as there are outcomes. past is
// the one with which the call was written.
func (r Room) ReadReleased(reply string, past Past, outcomes []Outcome[lockagent.ReleaseReply]) error {
	lines := readLines(reply)
	at := past.since(lines.time())
	for i := range outcomes {
		o := &outcomes[i]
		*o = Outcome[lockagent.ReleaseReply]{Reply: lockagent.ReleaseReply{Released: true, At: at}}
		switch code := lines.about(i); code {
		case "":
			if !r.Queues() {
				o.Reply.Others = -1
			}
		case "r":
			o.Reply.Others = int(lines.number(-1))
		case "p":
			o.Reply.Passed = true
		case "n":
			o.Reply.Released = false
		default:
			*o = Outcome[lockagent.ReleaseReply]{Err: lines.refusal(code)}
		}
	}
	return lines.end()
}

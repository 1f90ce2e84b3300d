package script

import (
	"slices"

	"github.com/lockagent/lockagent"
)

// Renew writes the call that renews tenures, see renew.lua. In a Cluster all are of one slot.
func (r Room) Renew(c *Call, requests []lockagent.RenewRequest) {
	c.begin(renewScript)
	watched := slices.ContainsFunc(requests, func(req lockagent.RenewRequest) bool { return req.Watched })
	for i := range requests {
		c.Keys = append(c.Keys, string(requests[i].Name))
		c.renew(&requests[i])
		if watched {
			c.Args = append(c.Args, r.watch(&requests[i]))
		}
	}
	c.Keys = append(c.Keys, r.shared(&c.text, "lockagent_clock", requests[0].Name))
}

// watch tells the script where those are who wait for a lock, if the request asks. Nothing shows who waits for a spin
// lock.
func (r Room) watch(request *lockagent.RenewRequest) string {
	switch kind := request.Kind.OrPlain(); {
	case !request.Watched || kind == lockagent.SpinLock:
		return ""
	case kind == lockagent.FairLock:
		return "fair"
	}
	return r.String()
}

func (c *Call) renew(request *lockagent.RenewRequest) {
	c.Args = append(c.Args, c.text.tenure(request.Tenure), c.text.milliseconds(request.Lease))
}

// ReadRenewed reads the reply to a call that renews as many tenures as there are outcomes. past is
// the one with which the call was written.
func ReadRenewed(reply string, past Past, outcomes []Outcome[lockagent.RenewReply]) error {
	lines := readLines(reply)
	at := past.since(lines.time())
	for i := range outcomes {
		o := &outcomes[i]
		*o = Outcome[lockagent.RenewReply]{Reply: lockagent.RenewReply{Held: true, At: at}}
		switch code := lines.about(i); code {
		case "":
		case "w":
			o.Reply.Contested = true
		case "n":
			o.Reply.Held = false
		case "f": // with the time at which the tenure was not there
			o.Reply.Held, o.Err = false, ErrForgotten
		default:
			*o = Outcome[lockagent.RenewReply]{Err: lines.refusal(code)}
		}
	}
	return lines.end()
}

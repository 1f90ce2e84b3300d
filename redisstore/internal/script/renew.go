package script

import "github.com/lockagent/lockagent"

// Renew writes the call that renews tenures, see renew.lua. In a Cluster all are of one slot.
func (r Room) Renew(c *Call, requests []lockagent.RenewRequest) {
	c.begin(renewScript)
	for i := range requests {
		c.Keys = append(c.Keys, string(requests[i].Name))
		c.renew(&requests[i])
	}
	c.Keys = append(c.Keys, r.shared(&c.text, "lockagent_clock", requests[0].Name))
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
		default:
			*o = Outcome[lockagent.RenewReply]{Err: lines.refusal(code)}
		}
	}
	return lines.end()
}

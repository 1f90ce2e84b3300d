package script

import (
	"time"

	"github.com/lockagent/lockagent"
)

// Acquire writes the call that acquires locks, see acquire.lua. All requests are of one agent
// and, in a Cluster, of one slot.
func (r Room) Acquire(c *Call, requests []lockagent.AcquireRequest, past Past) {
	r.acquire(c, acquireScript, requests, past, r.asks)
}

// acquire writes a call of a script. asks tells the script what a tenure asks for beside the lock.
func (r Room) acquire(
	c *Call, s *Script, requests []lockagent.AcquireRequest, past Past, asks func(*lockagent.AcquireRequest) string,
) {
	c.begin(s)
	asked, floor, exact := false, lockagent.Token(0), true
	for i := range requests {
		c.Keys = append(c.Keys, string(requests[i].Name))
		floor = max(floor, requests[i].Floor)
		exact = exact && (requests[i].Exact || requests[i].Floor == 0)
		asked = asked || waits(&requests[i]) || r.rests(&requests[i])
	}
	for i := range requests {
		c.Keys = append(c.Keys, c.text.own("lockagent_notes", requests[i].Name))
	}
	c.Keys = append(c.Keys, r.shared(&c.text, "lockagent_clock", requests[0].Name))
	c.Args = append(c.Args, c.text.known(past.Seen, floor, exact), r.incarnation(&past))
	for i := range requests {
		c.acquire(&requests[i])
		if asked {
			c.Args = append(c.Args, asks(&requests[i]))
		}
	}
}

func (c *Call) acquire(request *lockagent.AcquireRequest) {
	c.Args = append(c.Args, c.text.tenure(request.Tenure), c.text.milliseconds(request.Lease))
}

func (r Room) asks(request *lockagent.AcquireRequest) string {
	switch {
	case !r.rests(request):
		return r.place(request)
	case waits(request):
		return r.String() + "+rests+place"
	}
	return r.String() + "+rests"
}

// rests reports whether the tenure may be one that rests: tenures of the kind do, and messages reach the agent.
func (r Room) rests(request *lockagent.AcquireRequest) bool {
	kind := request.Kind.OrPlain()
	return request.Rests && r.Queues() && (kind == lockagent.PlainLock || kind == lockagent.FencedLock)
}

// waits reports whether a request waits for the lock: it asks for a place in the queue. Spin locks have no places, and
// there the agent of the request contends.
func waits(request *lockagent.AcquireRequest) bool {
	if request.Kind == lockagent.SpinLock {
		return request.Contends
	}
	return request.Queue
}

// place tells the script whether the request waits.
func (r Room) place(request *lockagent.AcquireRequest) string {
	if waits(request) {
		return r.String()
	}
	return ""
}

// queue is place for kinds whose scripts do not mind who waits without a queue.
func (r Room) queue(request *lockagent.AcquireRequest) string {
	if r.Queues() {
		return r.place(request)
	}
	return ""
}

// ReadAcquired reads the reply to a call that acquires as many locks as there are outcomes. past is
// the one with which the call was written.
func (r Room) ReadAcquired(reply string, past Past, outcomes []Outcome[lockagent.AcquireReply]) error {
	lines := readLines(reply)
	common := lockagent.AcquireReply{At: lines.time()}
	name, ahead := past.Incarnation, "0"
	if !lines.ended() {
		name, ahead = lines.word(), lines.word()
	}
	if r.named(&past) {
		common.Incarnation = name
	}
	if name != "" {
		common.Clock = name + "/" + ahead
	}
	for i := range outcomes {
		o := &outcomes[i]
		*o = Outcome[lockagent.AcquireReply]{Reply: common}
		switch code := lines.about(i); code {
		case "":
			o.Reply.Granted, o.Reply.Token = true, lockagent.Token(common.At)
		case "g", "G", "p", "P", "r":
			o.Reply.Rests, o.Reply.Contested = code == "r", code == "G" || code == "P"
			o.Reply.Granted, o.Reply.Token = true, lockagent.Token(lines.number(1))
			o.Reply.Outsiders = int(lines.number(0))
			if code == "p" || code == "P" {
				o.Reply.Total = int(lines.number(0))
			}
		case "h", "q", "k", "H", "Q", "K":
			o.Reply.HolderRests = code <= "Z"
			o.Reply.Queued = code != "h" && code != "H"
			if code == "k" || code == "K" {
				o.Reply.AskWithin = remaining(lines.number(1))
			}
			o.Reply.Remaining = remaining(lines.number(-1))
			o.Reply.Outsiders = int(lines.number(0))
			o.Reply.Holder = lines.rest()
		case "u":
			o.Reply.NotSet, o.Reply.Remaining = true, -1
			o.Reply.Outsiders = int(lines.number(0))
		case "w":
			*o = Outcome[lockagent.AcquireReply]{Err: lockagent.ErrWithdrawn}
		default:
			*o = Outcome[lockagent.AcquireReply]{Err: lines.refusal(code)}
		}
	}
	return lines.end()
}

// remaining is what is left of a lease, of which a reply tells the milliseconds. It is negative if
// the lease has no end.
func remaining(ms int64) time.Duration {
	if ms < 0 {
		return -1
	}
	return time.Duration(ms) * time.Millisecond
}

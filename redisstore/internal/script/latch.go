package script

import (
	_ "embed"
	"fmt"
	"time"

	"github.com/lockagent/lockagent"
)

//go:embed latch.lua
var latchSource string

var latchScript = newScript(latchSource)

// CheckLatch returns a [*lockagent.NameError] if a latch cannot have the name here. Redisson puts
// braces around every name to make the name of the channel. In a Cluster the channel of a latch with
// a tag of its own would be in another slot.
func (r Room) CheckLatch(name lockagent.Name) error {
	if r.Cluster() && hasTag(name) {
		return &lockagent.NameError{
			Name:   string(name),
			Reason: fmt.Sprintf("in a Cluster a latch cannot have a %q in its name; choose another", '{'),
		}
	}
	return nil
}

// LatchChannel is the channel of a latch.
func LatchChannel(name lockagent.Name) string {
	return "redisson_countdownlatch__channel__{" + string(name) + "}"
}

// Latch writes the call that reads or changes the count of a latch, see latch.lua. The notes about the
// change are kept so long.
func (r Room) Latch(c *Call, req lockagent.LatchRequest, kept time.Duration) {
	c.begin(latchScript)
	c.Keys = append(c.Keys, string(req.Name), c.text.own("lockagent_notes", req.Name))
	c.Args = append(c.Args, req.Op.String(), c.text.number(uint64(req.Count)), req.Change,
		c.text.milliseconds(kept), r.String(), LatchChannel(req.Name))
}

// ReadLatch reads the reply to a [Room.Latch]. opened says that the latch was counted down to 0
// lately.
func ReadLatch(reply string) (answer lockagent.LatchReply, opened bool, err error) {
	lines := readLines(reply)
	answer = lockagent.LatchReply{At: lines.time(), Count: lines.number(0), Changed: lines.number(0) == 1}
	opened = lines.number(0) == 1
	return answer, opened, lines.end()
}

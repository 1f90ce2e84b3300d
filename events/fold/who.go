package fold

import (
	"encoding/json"

	"github.com/lockagent/lockagent"
)

// Who is a [lockagent.Who] as reports write it: as a [Process] without a version.
type Who struct{ lockagent.Who }

// MarshalJSON implements [json.Marshaler].
func (w Who) MarshalJSON() ([]byte, error) { return json.Marshal(Process(w.Process())) }

// UnmarshalJSON implements [json.Unmarshaler].
func (w *Who) UnmarshalJSON(b []byte) error {
	var p Process
	err := json.Unmarshal(b, &p)
	w.Who = lockagent.Process(p).Who()
	return err
}

// WhoText is who has a lock or waits for it, for people. It is the process that asked for the lock, as
// [lockagent.Who.String] writes it. If this process is not known, or is that of the agent, it is the owner: what is
// said of the agent tells its process.
func WhoText(who Who, owner lockagent.Owner, agent lockagent.AgentID, of Process) string {
	if who.IsZero() || who.Is(of) {
		return OwnerText(owner, agent)
	}
	return who.String()
}

// Is reports whether w is the process of an agent.
func (w Who) Is(of Process) bool {
	p := w.Process()
	return p.PID == of.PID && p.Host == of.Host
}

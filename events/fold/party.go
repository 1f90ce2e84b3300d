package fold

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/internal/show"
)

// Party is an owner with its agent, as far as a log knows them. What it does not know is zero.
type Party struct {
	Owner   lockagent.Owner   `json:"owner,omitempty"`
	Who     Who               `json:"who,omitzero"`
	Agent   lockagent.AgentID `json:"agent,omitempty"`
	Process Process           `json:"process,omitzero"` // of the agent
}

// String names the owner and its agent for people.
func (p Party) String() string {
	switch {
	case p.Agent == "":
		return OwnerText(p.Owner, "")
	case p.Owner == "":
		return "agent " + AgentText(p.Agent, p.Process)
	}
	return WhoText(p.Who, p.Owner, p.Agent, p.Process) + " of agent " + AgentText(p.Agent, p.Process)
}

// OwnerText is an owner for people. An agent makes the name of an owner that has none of its own
// identity and a number. Of such a name it is the number alone, as in /7.
func OwnerText(owner lockagent.Owner, agent lockagent.AgentID) string {
	if number, ok := strings.CutPrefix(string(owner), string(agent)+"/"); ok && agent != "" {
		return "/" + show.Plain(number)
	}
	return fmt.Sprintf("%q", owner)
}

// madeUp is an identity that was made up: see [lockagent.NewAgentID]. That of a daemon begins with its host.
var madeUp = regexp.MustCompile(`^((?:.+-)?[0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// ShortAgent is the identity of an agent for people. Of an identity that was made up it is the host, if that is a part
// of it, and the first eight digits.
func ShortAgent(id lockagent.AgentID) string {
	if found := madeUp.FindStringSubmatch(string(id)); found != nil {
		return found[1]
	}
	return string(id)
}

// AgentText is an agent for people: its identity as [ShortAgent] has it, and where it runs.
func AgentText(id lockagent.AgentID, p Process) string {
	text := ShortAgent(id)
	switch {
	case p.Host == "":
		return text
	case p.Program == "":
		return fmt.Sprintf("%s on %s, pid %d", text, show.Plain(p.Host), p.PID)
	}
	return fmt.Sprintf("%s, %s on %s, pid %d", text, show.Plain(p.Program), show.Plain(p.Host), p.PID)
}

// behind returns the holder that a request has found, or nil if the request names none. The text is
// an owner of the same agent, a tenure of another one, or what another program wrote into the
// store.
func (f *Fold) behind(l *lockFold, agent lockagent.AgentID, holder string) *Party {
	if holder == "" {
		return nil
	}
	p := &Party{Owner: lockagent.Owner(holder)}
	t, ok := lockagent.ParseTenure(holder)
	if ok = ok && f.agents[t.Agent] != nil; ok {
		*p = Party{Agent: t.Agent}
	} else if strings.HasPrefix(holder, string(agent)+"/") {
		p.Agent = agent
	}
	for _, h := range l.open {
		switch {
		case ok && h.Agent == t.Agent && h.Tenure == t.Number:
			p.Owner, p.Who = h.Owner, h.Who
		case !ok && h.Agent == agent && h.Owner == p.Owner:
			p.Agent, p.Who = agent, h.Who
		}
	}
	if a := f.agents[p.Agent]; a != nil {
		p.Process = a.Process
	}
	return p
}

package storetest

import "github.com/lockagent/lockagent"

// twinDefects are about agents that have one identity.
var twinDefects = []defect{
	{
		"tells nobody that he is alone", "Twins/agents with identities of their own are alone",
		without(lockagent.MessageAlone),
	},
	{
		"takes twins for one agent",
		"Twins/the agent that comes later is told",
		telling(lockagent.MessageTwin, func(m *lockagent.Message) {
			m.Kind = lockagent.MessageAlone
		}),
	},
	{"knows only the twins in other stores", "Twins/two agents of one store are told apart", func(s *spoilt) {
		listen, known := s.listen, make(map[lockagent.AgentID]bool)
		s.listen = func(agent lockagent.AgentID, hear func(lockagent.Message)) func() {
			again := known[agent]
			known[agent] = true
			return listen(agent, func(m lockagent.Message) {
				if m.Kind != lockagent.MessageTwin || !again {
					hear(m)
				}
			})
		}
	}},
}

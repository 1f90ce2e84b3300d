package actor

import "github.com/lockagent/lockagent"

// layers are what the store has beside the methods of every store. A layer that it does not have is nil.
type layers struct {
	messages lockagent.Messages
	operator lockagent.Operator
	counters lockagent.Counters
	history  lockagent.History
	rests    bool
}

func layersOf(s lockagent.Store) (l layers) {
	l.messages, _ = lockagent.Layer[lockagent.Messages](s)
	l.operator, _ = lockagent.Layer[lockagent.Operator](s)
	l.counters, _ = lockagent.Layer[lockagent.Counters](s)
	l.history, _ = lockagent.Layer[lockagent.History](s)
	rests, ok := lockagent.Layer[lockagent.Rests](s)
	l.rests = ok && rests.Rests()
	return l
}

// The errors of calls that need a layer which the store does not have.
var (
	errNoMessages = wrongOption("Config.Store",
		"it has no lockagent.Messages, so nobody tells whether another process goes on from the same journal; use a store that has")
	errNoOperator = wrongOption("Config.Store",
		"it has no lockagent.Operator, so it can neither break nor inspect a lock; use a store that has")
	errNoCounters = wrongOption("Config.Store",
		"it has no lockagent.Counters, so there are no semaphores and no latches; use a store that has")
)

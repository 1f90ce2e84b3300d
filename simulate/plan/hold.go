package plan

import "time"

// ClientOf numbers a worker of an agent in one of its lives, and AgentOf returns the agent.
func ClientOf(agent, life, worker int) int { return 100*life + 10*agent + worker }
func AgentOf(client int) int               { return client / 10 % 10 }

// Hold is what a client saw of one hold. Times are those of the run.
type Hold struct {
	Lock    string
	Client  int // of all workers in all lives of agents
	Shared  bool
	Permits int // of a hold of a semaphore
	Token   uint64

	Asked, Granted time.Duration // when the request was made, and when the client had its grant
	// Ending and Ended are around the end of the hold: when the client began to release the lock, and when the release
	// was over. Of a hold that was lost they are when the client trusted it last, and when it knew of the loss.
	Ending, Ended time.Duration
	Lost          bool
	Denied        bool // it was lost because the store said that it was over
}

// Wait is a request of a client that ended without a hold.
type Wait struct {
	Lock         string
	Client       int
	Asked, Ended time.Duration
}

// Breach is what a run must not have. The guest sees it.
type Breach struct {
	What     string // see below
	Lock     string
	Text     string
	Outsider bool // one of the clients is an outsider

	// At is when it was seen. Whatever explains an overlap has happened since From.
	From, At time.Duration
}

// What a Breach is.
const (
	Overlap = "overlap"     // two clients trusted their holds at one moment, or more permits were in use than there are
	Fell    = "token fell"  // who trusted a hold had an older token than somebody before
	Stuck   = "stuck"       // nobody got the lock, though nothing went wrong any more
	Unfit   = "wrong error" // a request had an error that no fault explains
)

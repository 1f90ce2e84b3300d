// Package saved has what one process leaves to the next one: the locks of an agent, as plain data.
//
// # Usage
//
// An agent writes records to its journal, each under a key, while it works: [Stay], [Floor], [Tenure] and [Request]
// make them. A journal is a map of records. [Read] makes an [Agent] of it, from which the next process goes on.
//
// Before that process does so, [Agent.Confirm] asks the store for what may have run out in the journal alone, and
// [Agent.Reassert] gives the locks to a store that has forgotten everything.
//
// # The records
//
//	agent/stay                    who the agent is, its numbers, and the present time
//	lock/NAME/floor               the greatest token of the lock that the agent knows of
//	lock/NAME/tenure/NUMBER       a tenure
//	lock/NAME/request/NUMBER      a request, with its grant
//
// A record is always whole: whoever writes it again writes all of it. A name may have slashes. So a key is read from
// its end.
package saved

// Package lockagentv1 has the messages of the daemon's API. Its code is generated from the files beside it by
// make generate. Package agentclient is the way for programs in Go.
package lockagentv1

package transport

import (
	"crypto/sha1"
	"encoding/hex"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Script is one Lua script. A server runs it by its digest. If the server does not have
// the script, the transport sends the source, and the server keeps it.
type Script struct{ Source, Digest string }

// NewScript returns the script with a source.
func NewScript(source string) *Script {
	sum := sha1.Sum([]byte(source)) // the protocol names scripts by it
	return &Script{Source: source, Digest: hex.EncodeToString(sum[:])}
}

// Call is one run of a script. The transport has it to itself until it calls Done. The store
// may then use the Call again.
type Call struct {
	Script     *Script
	Keys, Args []string
	// Slot is the hash slot of all keys. It means nothing if [Servers.Slotted] is false.
	Slot uint16

	// Replicated has the transport wait, after the script, until [Config.Replicas] replicas have what
	// the script wrote, and all that was written before on that server. It waits for at most
	// [Config.ReplicaTimeout]. Acknowledged is then how many replicas have it. It is set before Done
	// is called without an error.
	//
	// A server may not count from a script that wrote nothing.
	Replicated   bool
	Acknowledged int

	// Done is called once, with the reply or an error of the lockagent package. It must
	// not block. It may end its goroutine, as a failing test does: the transport answers
	// all other calls nevertheless.
	Done func(reply Reply, err error)

	made   time.Time // when it was added to a lane; if it was packed, when the oldest of its batch was
	asking bool      // an ASKING goes before it: the server is only about to get the slot
	tries  int       // how often a server refused it

	uncounted error // why nobody knows how many replicas have what it wrote
}

// byDigest is the command that runs the script if the server has it.
func (c *Call) byDigest(b rueidis.Builder) rueidis.Completed {
	return b.Evalsha().Sha1(c.Script.Digest).Numkeys(int64(len(c.Keys))).Key(c.Keys...).Arg(c.Args...).Build()
}

// bySource is the command that runs the script in any case.
func (c *Call) bySource(b rueidis.Builder) rueidis.Completed {
	return b.Eval().Script(c.Script.Source).Numkeys(int64(len(c.Keys))).Key(c.Keys...).Arg(c.Args...).Build()
}

// missing reports whether a reply says that the server does not have the script.
func missing(reply Reply) bool { return reply.kind == '-' && strings.HasPrefix(reply.text, "NOSCRIPT") }

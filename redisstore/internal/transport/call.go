package transport

import (
	"crypto/sha1"
	"encoding/hex"
	"time"

	"github.com/redis/rueidis"
)

// Script is one Lua script. A server runs it by its digest. If the server does not have
// it, the source is sent, and the server keeps it.
type Script struct{ Source, Digest string }

// NewScript returns the script with a source.
func NewScript(source string) *Script {
	sum := sha1.Sum([]byte(source)) // the protocol names scripts by it
	return &Script{Source: source, Digest: hex.EncodeToString(sum[:])}
}

// Call is one run of a script. The transport has it to itself until Done is called.
type Call struct {
	Script     *Script
	Keys, Args []string
	// Slot is that of all keys. Where [Servers.Slotted] is false it means nothing.
	Slot uint16

	// Behind has the server write its reply after what the script publishes. Whoever is published to
	// then need not compete with the caller for the processors of one machine.
	Behind bool

	// Done is called once, with the reply or an error of the lockagent package. It must
	// not block. If it ends its goroutine, as a test does that fails, all others are
	// answered all the same.
	Done func(reply rueidis.RedisMessage, err error)

	// Alone, if not nil, returns the calls to make in place of this one when its keys
	// cannot travel together: while their slot migrates. Each of those calls has one key.
	// Done of this call is not called then. It is called for the first refusal only.
	Alone func() []*Call

	made   time.Time // when the oldest of what it was made of was given to a lane
	asking bool      // the server is to make an exception: the slot is about to be its own
	tries  int       // how often it was sent
}

// preceded reports whether another command comes before the call.
func (c *Call) preceded() bool { return c.asking || c.Behind }

// before is that command. The server writes to its clients in the reverse of the order in which it
// began to answer them. A PING has it begin to answer the caller before the script publishes.
func (c *Call) before(b rueidis.Builder) rueidis.Completed {
	if c.asking {
		return b.Asking().Build()
	}
	return b.Ping().Build()
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
func missing(reply rueidis.RedisResult) bool {
	err, ok := rueidis.IsRedisErr(reply.Error())
	return ok && err.IsNoScript()
}

package redisstore

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"

	"github.com/redis/rueidis"
)

// The contract of each script stands on top of it.
var (
	//go:embed acquire.lua
	acquireSource string
	//go:embed renew.lua
	renewSource string
	//go:embed release.lua
	releaseSource string
	//go:embed break.lua
	breakSource string
	//go:embed inspect.lua
	inspectSource string
	//go:embed incarnation.lua
	incarnationSource string
	//go:embed rehearse.lua
	rehearseSource string
)

var (
	acquireScript     = newScript(acquireSource)
	renewScript       = newScript(renewSource)
	releaseScript     = newScript(releaseSource)
	breakScript       = newScript(breakSource)
	inspectScript     = newScript(inspectSource)
	incarnationScript = newScript(incarnationSource)
	rehearseScript    = newScript(rehearseSource)
)

// script is one Lua script. A server that has it runs it by its digest; to one
// that has not, or has forgotten it, the source is sent, which it then keeps.
type script struct {
	source, digest string
}

func newScript(source string) *script {
	sum := sha1.Sum([]byte(source)) // what the protocol has names of scripts made of
	return &script{source: source, digest: hex.EncodeToString(sum[:])}
}

// byDigest is the command that runs the script if the server has it.
func (s *script) byDigest(b rueidis.Builder, keys, args []string) rueidis.Completed {
	return b.Evalsha().Sha1(s.digest).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

// bySource is the command that runs the script in any case.
func (s *script) bySource(b rueidis.Builder, keys, args []string) rueidis.Completed {
	return b.Eval().Script(s.source).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

// missing reports whether a reply says that the server does not have the script.
func missing(reply rueidis.RedisResult) bool {
	err, ok := rueidis.IsRedisErr(reply.Error())
	return ok && err.IsNoScript()
}

package script

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"strings"
)

// Script is a Lua script. A server that has it runs it by its digest; to one that has not, or
// has forgotten it, the source is sent, which it then keeps.
type Script struct{ Source, Digest string }

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
	//go:embed wake.lua
	wakeSource string
	//go:embed clock.lua
	clockSource string
	//go:embed holders.lua
	holdersSource string
)

var (
	acquireScript     = newScript(acquireSource)
	renewScript       = newScript(renewSource)
	releaseScript     = newScript(releaseSource)
	breakScript       = newScript(breakSource)
	inspectScript     = newScript(inspectSource)
	incarnationScript = newScript(incarnationSource)
	rehearseScript    = newScript(rehearseSource)
	wakeScript        = newScript(wakeSource)
)

// newScript puts the parts that scripts share in their place.
func newScript(source string) *Script {
	source = strings.NewReplacer("--include clock.lua\n", clockSource, "--include holders.lua\n", holdersSource).Replace(source)
	sum := sha1.Sum([]byte(source)) // what the protocol has names of scripts made of
	return &Script{Source: source, Digest: hex.EncodeToString(sum[:])}
}

// Call is one run of a script. The zero Call is usable. Each method of [Room] that writes a call
// replaces what was in it, and uses its memory again. The strings stay valid.
type Call struct {
	Script     *Script
	Keys, Args []string

	text text
}

func (c *Call) begin(s *Script) {
	clear(c.Keys)
	clear(c.Args)
	c.Script, c.Keys, c.Args = s, c.Keys[:0], c.Args[:0]
	c.text.begin()
}

// alone has only the first key declared. The names of the others come last.
func (c *Call) alone() {
	c.Args = append(c.Args, c.Keys[1:]...)
	c.Keys = c.Keys[:1]
}

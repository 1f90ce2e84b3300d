package script

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"strings"
)

// Script is a Lua script. A server runs it by its digest. If the server does not have the script,
// or has forgotten it, send the source: the server then keeps it.
type Script struct{ Source, Digest string }

// Each file begins with the contract of its script.
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
	//go:embed identity.lua
	identitySource string
	//go:embed rehearse.lua
	rehearseSource string
	//go:embed wake.lua
	wakeSource string
)

// parts has the parts that scripts share.
//
//go:embed *.lua
var parts embed.FS

var (
	acquireScript     = newScript(acquireSource)
	renewScript       = newScript(renewSource)
	releaseScript     = newScript(releaseSource)
	breakScript       = newScript(breakSource)
	inspectScript     = newScript(inspectSource)
	incarnationScript = newScript(incarnationSource)
	identityScript    = newScript(identitySource)
	rehearseScript    = newScript(rehearseSource)
	wakeScript        = newScript(wakeSource)
)

func newScript(source string) *Script {
	var whole strings.Builder
	include(&whole, source)
	sum := sha1.Sum([]byte(whole.String())) // the protocol names scripts by it
	return &Script{Source: whole.String(), Digest: hex.EncodeToString(sum[:])}
}

// include writes a script, and in place of each --include the part that the scripts share. A part may
// include others. Every program that uses the package does this as it starts.
func include(to *strings.Builder, source string) {
	for line := range strings.Lines(source) {
		name, ok := strings.CutPrefix(line, "--include ")
		if !ok {
			to.WriteString(line)
			continue
		}
		part, err := parts.ReadFile(strings.TrimSuffix(name, "\n"))
		if err != nil {
			panic(err)
		}
		include(to, string(part))
	}
}

// Call is one run of a script. The zero Call is usable. Each method of [Room] that writes a call
// replaces the earlier run, and uses the slices again. Earlier strings stay valid.
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

// alone leaves only the first key declared. The names of the other keys become the last arguments.
func (c *Call) alone() {
	c.Args = append(c.Args, c.Keys[1:]...)
	c.Keys = c.Keys[:1]
}

package script

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"strings"
	"sync"
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
	//go:embed publish.lua
	publishSource string
	//go:embed rehearse.lua
	rehearseSource string
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
	publishScript     = newScript(publishSource)
	rehearseScript    = newScript(rehearseSource)
)

// all are the scripts of the package.
var all []*Script

// newScript returns a script that has its text and its digest when assemble has returned.
func newScript(source string) *Script {
	s := &Script{Source: source}
	all = append(all, s)
	return s
}

// assemble completes the scripts. Whoever is about to use one calls it. Programs that have the package and make no call, as most verbs of
// lockagent, do not wait for it when they start.
var assemble = sync.OnceFunc(func() {
	for _, s := range all {
		var whole strings.Builder
		include(&whole, s.Source)
		sum := sha1.Sum([]byte(whole.String())) // the protocol names scripts by it
		s.Source, s.Digest = whole.String(), hex.EncodeToString(sum[:])
	}
})

// include writes a script, and in place of each --include the part that the scripts share. A part may
// include others.
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
	assemble()
	clear(c.Keys)
	clear(c.Args)
	c.Script, c.Keys, c.Args = s, c.Keys[:0], c.Args[:0]
	c.text.begin()
}

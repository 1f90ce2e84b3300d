package script

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"regexp"
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

// assemble completes the scripts. Whoever is about to use one calls it. Programs that have the package and make no
// call, as most verbs of lockagent, do not wait for it when they start.
var assemble = sync.OnceFunc(func() {
	for _, s := range all {
		whole := include(s.Source)
		sum := sha1.Sum([]byte(whole)) // the protocol names scripts by it
		s.Source, s.Digest = whole, hex.EncodeToString(sum[:])
	}
})

// include returns a script with the parts that it shares with others in place of their --include lines. A part may
// include others, and is there once. A function that the script does not use is left out, because a server makes each
// function anew whenever it runs the script. Comments that are in no function are left out, too: they may name
// functions.
func include(source string) string {
	blocks := expand(nil, source, map[string]bool{})
	functions := map[string]*block{}
	var reach []*block // those that are used, and were not looked at
	for i := range blocks {
		if b := &blocks[i]; b.function != "" {
			functions[b.function] = b
		} else {
			b.used = true
			reach = append(reach, b)
		}
	}
	for len(reach) > 0 {
		last := len(reach) - 1
		b := reach[last]
		reach = reach[:last]
		for _, word := range word.FindAllString(comment.ReplaceAllString(b.text, ""), -1) {
			if f := functions[word]; f != nil && !f.used {
				f.used = true
				reach = append(reach, f)
			}
		}
	}
	var whole strings.Builder
	for i := range blocks {
		if blocks[i].used {
			whole.WriteString(blocks[i].text)
		}
	}
	return whole.String()
}

// block is a function of a script, or a line that is in none.
type block struct {
	function string // its name, or empty
	text     string
	used     bool
}

// opening is how a function begins. It ends with a line "end", or with its first line.
var (
	opening = regexp.MustCompile(`^local function (\w+)\(`)
	comment = regexp.MustCompile(`--.*`)
	word    = regexp.MustCompile(`\w+`)
)

// expand appends the blocks of a source to others. done has the parts that are there already.
func expand(to []block, source string, done map[string]bool) []block {
	inside := false
	for line := range strings.Lines(source) {
		name, includes := strings.CutPrefix(line, "--include ")
		switch begins := opening.FindStringSubmatch(line); {
		case inside:
			to[len(to)-1].text += line
			inside = line != "end\n"
		case begins != nil:
			to = append(to, block{function: begins[1], text: line})
			inside = !strings.HasSuffix(line, " end\n")
		case includes && done[name]:
		case includes:
			done[name] = true
			part, err := parts.ReadFile(strings.TrimSuffix(name, "\n"))
			if err != nil {
				panic(err)
			}
			to = expand(to, string(part), done)
		case strings.HasPrefix(line, "--"):
		default:
			to = append(to, block{text: line})
		}
	}
	return to
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

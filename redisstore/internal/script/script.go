package script

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"strings"
	"sync"
	"unicode"
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
	//go:embed reasserted.lua
	reassertedSource string
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
	reassertedScript  = newScript(reassertedSource)
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
// function anew whenever it runs the script. Comments between functions are left out, too. What a comment names does
// not count as used.
func include(source string) string {
	blocks := expand(nil, blocksOf(source), map[string]bool{})
	functions := map[string]*block{}
	var reach []*block // those that are used, and were not looked at
	used := map[*block]bool{}
	for _, b := range blocks {
		if b.function != "" {
			functions[b.function] = b
		} else {
			reach, used[b] = append(reach, b), true
		}
	}
	for len(reach) > 0 {
		last := len(reach) - 1
		b := reach[last]
		reach = reach[:last]
		for _, word := range b.words {
			if f := functions[word]; f != nil && !used[f] {
				reach, used[f] = append(reach, f), true
			}
		}
	}
	var whole strings.Builder
	for _, b := range blocks {
		if used[b] {
			whole.WriteString(b.text)
		}
	}
	return whole.String()
}

// expand appends the blocks of a script to others, with those of its parts. done has the parts that are there already.
func expand(to, blocks []*block, done map[string]bool) []*block {
	for _, b := range blocks {
		switch {
		case b.part == "":
			to = append(to, b)
		case !done[b.part]:
			done[b.part] = true
			if partBlocks()[b.part] == nil {
				panic("no part " + b.part)
			}
			to = expand(to, partBlocks()[b.part], done)
		}
	}
	return to
}

// block is a piece of a script: a function, or what stands between two, or a line that includes a part.
type block struct {
	function, part string
	text           string
	words          []string // in it, but for its comments
}

func blocksOf(source string) (blocks []*block) {
	inside := false
	for line := range strings.Lines(source) {
		part, includes := strings.CutPrefix(line, "--include ")
		opening, begins := strings.CutPrefix(line, "local function ")
		switch {
		case inside:
			blocks[len(blocks)-1].text += line
			inside = line != "end\n"
		case begins: // it ends with a line "end", or with its first line
			name, _, _ := strings.Cut(opening, "(")
			blocks = append(blocks, &block{function: name, text: line})
			inside = !strings.HasSuffix(line, " end\n")
		case includes:
			blocks = append(blocks, &block{part: strings.TrimSuffix(part, "\n")})
		case strings.HasPrefix(line, "--"):
		case len(blocks) > 0 && blocks[len(blocks)-1].function+blocks[len(blocks)-1].part == "":
			blocks[len(blocks)-1].text += line
		default:
			blocks = append(blocks, &block{text: line})
		}
	}
	for _, b := range blocks {
		b.words = wordsOf(b.text)
	}
	return blocks
}

// wordsOf returns the words of a text, but for those in comments.
func wordsOf(text string) (words []string) {
	separates := func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	for line := range strings.Lines(text) {
		code, _, _ := strings.Cut(line, "--")
		words = append(words, strings.FieldsFunc(code, separates)...)
	}
	return words
}

// partBlocks has the blocks of each part. Most parts are in several scripts.
var partBlocks = sync.OnceValue(func() map[string][]*block {
	all := map[string][]*block{}
	files, err := parts.ReadDir(".")
	for _, file := range files {
		var source []byte
		if source, err = parts.ReadFile(file.Name()); err != nil {
			break
		}
		all[file.Name()] = blocksOf(string(source))
	}
	if err != nil {
		panic(err)
	}
	return all
})

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

package access

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lockagent/lockagent"
)

// Pattern says which names a rule is for. In it, * is any text without a slash, also none, and ** is any text.
// Everything else stands for itself. The zero Pattern matches only the empty name.
type Pattern struct {
	prefix string // before the first star
	parts  []part // one for each star, in order
	suffix string // behind the last star, or empty
}

// part is a star and the text behind it. Only the last part may have no text.
type part struct {
	deep    bool // the star is **
	literal string
}

// ParsePattern reads a pattern.
func ParsePattern(text string) (Pattern, error) {
	switch {
	case text == "":
		return Pattern{}, errors.New(`the pattern is empty; write "**" for all names`)
	case len(text) > lockagent.MaxNameLen:
		return Pattern{}, fmt.Errorf("the pattern has %d bytes, the limit is %d", len(text), lockagent.MaxNameLen)
	case strings.Contains(text, "***"):
		return Pattern{}, fmt.Errorf(`%q has three stars in a row; write "**" for any text`, text)
	}
	literal, rest, found := strings.Cut(text, "*")
	p := Pattern{prefix: literal}
	for found {
		var next part
		rest, next.deep = strings.CutPrefix(rest, "*")
		next.literal, rest, found = strings.Cut(rest, "*")
		p.parts = append(p.parts, next)
		p.suffix = next.literal
	}
	return p, nil
}

// String is the text of the pattern.
func (p Pattern) String() string {
	text := p.prefix
	for _, part := range p.parts {
		if part.deep {
			text += "*"
		}
		text += "*" + part.literal
	}
	return text
}

// may reports whether the two ends of name are right, which is cheap to see.
func (p *Pattern) may(name string) bool {
	return strings.HasPrefix(name, p.prefix) && strings.HasSuffix(name, p.suffix)
}

// Match reports whether name is one of those that the pattern is for. Whoever looks at locks chooses the pattern, so its time is bounded by the
// product of their lengths.
func (p Pattern) Match(name string) bool {
	rest, ok := strings.CutPrefix(name, p.prefix)
	if !ok || len(p.parts) == 0 {
		return ok && rest == ""
	}
	if len(p.parts) == 1 { // as in most rules
		taken, ok := strings.CutSuffix(rest, p.suffix)
		return ok && (p.parts[0].deep || !strings.Contains(taken, "/"))
	}
	begins, ends := make([]bool, len(rest)+1), make([]bool, len(rest)+1)
	begins[0] = true
	for _, part := range p.parts {
		if !part.find(rest, begins, ends) {
			return false
		}
		begins, ends = ends, begins
	}
	return begins[len(rest)]
}

// find sets where in text the part may end that begins at one of some places, of which there is one. It reports whether there is such an end.
func (p part) find(text string, begins, ends []bool) (found bool) {
	clear(ends)
	within := false // the star
	for at := slices.Index(begins, true); at < len(begins); at++ {
		within = within || begins[at]
		if within && strings.HasPrefix(text[at:], p.literal) {
			ends[at+len(p.literal)], found = true, true
		}
		if !p.deep && strings.HasPrefix(text[at:], "/") {
			within = false
		}
	}
	return found
}

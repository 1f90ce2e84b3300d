package access

import (
	"errors"
	"fmt"
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

// Match reports whether name is one of those that the pattern is for.
//
// It takes the first place for each literal. When that leads nowhere, it takes the next place for the last literal
// behind a **. A later place for a literal behind a * would not help. The * would have to take a slash, or the rest
// of the pattern would have matched already.
func (p Pattern) Match(name string) bool {
	rest, ok := strings.CutPrefix(name, p.prefix)
	if !ok || len(p.parts) == 0 {
		return ok && rest == ""
	}
	deep, next := -1, 0 // the last part with ** that was found, and where to look for it again
	for i, from := 0, 0; i < len(p.parts); {
		at := p.parts[i].find(rest, from, i == len(p.parts)-1)
		switch {
		case at >= 0:
			if p.parts[i].deep {
				deep, next = i, at+1
			}
			from = at + len(p.parts[i].literal)
			i++
		case deep < 0 || deep == i:
			return false
		default:
			i, from = deep, next
		}
	}
	return true
}

// find returns where the literal is in text, if the star is what begins at from. The literal of the
// last part is at the end. It returns a negative number if there is no such place.
func (p part) find(text string, from int, last bool) int {
	rest := text[from:]
	if last {
		at := len(rest) - len(p.literal)
		if !strings.HasSuffix(rest, p.literal) || !p.deep && strings.Contains(rest[:at], "/") {
			return -1
		}
		return from + at
	}
	if !p.deep {
		if slash := strings.IndexByte(rest, '/'); slash >= 0 {
			rest = rest[:min(len(rest), slash+len(p.literal))]
		}
	}
	at := strings.Index(rest, p.literal)
	if at < 0 {
		return -1
	}
	return from + at
}

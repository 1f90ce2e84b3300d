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
	text           string
	prefix, suffix string  // before the first star, and behind the last one
	star           string  // the only star, * or **, or empty if there is none or more than one
	places         *places // of a pattern with several stars, else nil
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
	first, last := strings.IndexByte(text, '*'), strings.LastIndexByte(text, '*')
	if first < 0 {
		return Pattern{text: text, prefix: text}, nil
	}
	p := Pattern{text: text, prefix: text[:first], suffix: text[last+1:]}
	if p.star = text[first : last+1]; strings.Trim(p.star, "*") != "" {
		p.star, p.places = "", newPlaces(text)
	}
	return p, nil
}

// String is the text of the pattern.
func (p Pattern) String() string { return p.text }

// may reports whether the two ends of name are right, which is cheap to see.
func (p *Pattern) may(name string) bool {
	return strings.HasPrefix(name, p.prefix) && strings.HasSuffix(name, p.suffix)
}

// Match reports whether name is one of those that the pattern is for.
//
// Whoever looks at locks chooses the pattern, and others may have chosen the names. So the work depends on nothing
// but the two lengths: each byte of the name costs one step for each 64 bytes of the pattern.
func (p Pattern) Match(name string) bool {
	switch {
	case !p.may(name):
		return false
	case p.places != nil:
		return p.places.match(name)
	case p.star == "":
		return name == p.prefix
	}
	between := len(name) - len(p.suffix)
	return len(p.prefix) <= between && (p.star == "**" || !strings.Contains(name[len(p.prefix):between], "/"))
}

// places are those between the bytes of a pattern, where stars are no bytes of it but make their place one at which a
// name may stay. A set of places has a bit for each. The first place is before all bytes, and the last one is behind
// them.
type places struct {
	after [256]set // the places behind each byte of this value; nil if the pattern has no such byte
	stars set      // the places at which a name stays whatever it goes on with, but for a slash
	deep  set      // those of them at which it stays with a slash as well
	last  int
}

type set []uint64

const word = 64 // bits

func (s set) add(place int)      { s[place/word] |= 1 << (place % word) }
func (s set) has(place int) bool { return s[place/word]>>(place%word)&1 != 0 }

func newPlaces(text string) *places {
	p := &places{last: len(text) - strings.Count(text, "*")}
	words := p.last/word + 1
	p.stars, p.deep = make(set, words), make(set, words)
	for place := 0; text != ""; {
		b := text[0]
		text = text[1:]
		switch {
		case b != '*':
			place++
			if p.after[b] == nil {
				p.after[b] = make(set, words)
			}
			p.after[b].add(place)
		case p.stars.has(place): // the second of two
			p.deep.add(place)
		default:
			p.stars.add(place)
		}
	}
	return p
}

// match follows a name through all ways at once: at is where the pattern can be behind the bytes that it has seen.
func (p *places) match(name string) bool {
	at := make(set, len(p.stars))
	at.add(0)
	for i := range len(name) {
		after, stay := p.after[name[i]], p.stars
		if name[i] == '/' {
			stay = p.deep
		}
		carry := uint64(0) // from the word before
		for w, here := range at {
			at[w] = here & stay[w]
			if after != nil {
				at[w] |= (here<<1 | carry) & after[w]
			}
			carry = here >> (word - 1)
		}
	}
	return at.has(p.last)
}

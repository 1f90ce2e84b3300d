package events

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/lockagent/lockagent"
)

// subjectRoot begins every subject; [AllSubjects] is all of them.
const subjectRoot = "lockagent.v1."

// AllSubjects is the wildcard under which all events are published. A stream
// that is made by hand must take it.
const AllSubjects = subjectRoot + ">"

const (
	maxNameTokens = 16
	maxNameBytes  = 512 // NATS closes the connection of a client that sends lines of 4 KiB

	emptyToken = "="  // stands for a token without a byte
	hashToken  = "=-" // begins the only token of a name that is too long to spell out
	hashLen    = 16
	hexDigits  = "0123456789ABCDEF"
)

// AppendSubject appends the subject of an event to b:
//
//	lockagent.v1.<agent>.<kind>.<name>
//
// The name is one token for each of the parts that '/' separates, so that
// "lockagent.v1.*.*.billing.invoices.>" is every lock below billing/invoices/.
// Within a token letters, digits, '_' and '-' stand for themselves, and any other
// byte is '=' and two hexadecimal digits. A token without a byte is "=", which
// makes "=" the name in events that are about no lock.
//
// A name of more than 16 tokens or 512 encoded bytes is one token, "=-" and the
// first 16 bytes of its SHA-256 in hexadecimal digits; the name itself is in the
// event.
//
// agent must consist of letters, digits, '_' and '-' only.
func AppendSubject(b []byte, agent lockagent.AgentID, kind lockagent.EventKind, name lockagent.Name) []byte {
	b = append(b, subjectRoot...)
	b = append(b, agent...)
	b = append(b, '.')
	b = append(b, kind.String()...)
	b = append(b, '.')
	return appendName(b, string(name))
}

func appendName(b []byte, name string) []byte {
	start, tokens := len(b), 1
	empty := true
	for i := range len(name) {
		c := name[i]
		switch {
		case c == '/':
			if empty {
				b = append(b, emptyToken...)
			}
			b = append(b, '.')
			tokens++
		case plain(c):
			b = append(b, c)
		default:
			b = append(b, '=', hexDigits[c>>4], hexDigits[c&15])
		}
		empty = c == '/'
		if tokens > maxNameTokens || len(b)-start > maxNameBytes {
			return appendHash(b[:start], name)
		}
	}
	if empty {
		b = append(b, emptyToken...)
	}
	if len(b)-start > maxNameBytes {
		return appendHash(b[:start], name)
	}
	return b
}

func appendHash(b []byte, name string) []byte {
	sum := sha256.Sum256([]byte(name))
	return hex.AppendEncode(append(b, hashToken...), sum[:hashLen])
}

// plain reports whether c stands for itself in a subject.
func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// Subject is what the subject of an event tells about it.
type Subject struct {
	Agent lockagent.AgentID
	Kind  lockagent.EventKind

	// Lock is empty if the event is about no lock, or if Hashed.
	Lock lockagent.Name

	// Hashed is true if the name of the lock was too long to be spelled out.
	Hashed bool
}

// ParseSubject is the inverse of [AppendSubject]. It returns an error for a text
// that AppendSubject does not make.
func ParseSubject(text string) (Subject, error) {
	bad := func(format string, args ...any) (Subject, error) {
		return Subject{}, fmt.Errorf("events: subject %q: %s", text, fmt.Sprintf(format, args...))
	}
	rest, ok := strings.CutPrefix(text, subjectRoot)
	parts := strings.SplitN(rest, ".", 3)
	if !ok || len(parts) < 3 {
		return bad("it is not %s<agent>.<kind>.<name>", subjectRoot)
	}
	s := Subject{Agent: lockagent.AgentID(parts[0])}
	if !validAgent(s.Agent) {
		return bad("bad agent %q", s.Agent)
	}
	if s.Kind, ok = lockagent.ParseEventKind(parts[1]); !ok {
		return bad("unknown kind %q", parts[1])
	}
	if sum, ok := strings.CutPrefix(parts[2], hashToken); ok {
		raw, err := hex.DecodeString(sum)
		if err != nil || len(raw) != hashLen || sum != hex.EncodeToString(raw) {
			return bad("bad hash %q", sum)
		}
		s.Hashed = true
		return s, nil
	}
	name := parseName(parts[2])
	// Each name has one encoding, and each encoding must be that of a name.
	if string(appendName(nil, name)) != parts[2] {
		return bad("no name is encoded as %q", parts[2])
	}
	s.Lock = lockagent.Name(name)
	return s, nil
}

// parseName returns the name that is encoded in text, or anything else if text
// is not a correct encoding.
func parseName(text string) string {
	name := make([]byte, 0, len(text))
	for i, token := range strings.Split(text, ".") {
		if i > 0 {
			name = append(name, '/')
		}
		if token == emptyToken {
			continue
		}
		for j := 0; j < len(token); j++ {
			c := token[j]
			if c == '=' && j+2 < len(token) {
				c = byte(strings.IndexByte(hexDigits, token[j+1])<<4 | strings.IndexByte(hexDigits, token[j+2]))
				j += 2
			}
			name = append(name, c)
		}
	}
	return string(name)
}

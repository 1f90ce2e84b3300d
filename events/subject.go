package events

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/internal/wire"
)

// DefaultPrefix begins every subject, unless another prefix is configured.
const DefaultPrefix = "lockagent.v1"

// AllSubjects is the wildcard of all events under [DefaultPrefix]. A stream that is made by
// hand must take it.
const AllSubjects = DefaultPrefix + ".>"

// CheckPrefix returns a [*lockagent.OptionError] unless prefix can begin a subject.
func CheckPrefix(prefix string) error {
	for token := range strings.SplitSeq(prefix, ".") {
		if !PlainToken(token) {
			return &lockagent.OptionError{Option: "Prefix", Reason: fmt.Sprintf(
				"%q is not made of letters, digits, '_' and '-', in parts with a dot between them; use one such as %q", prefix,
				DefaultPrefix)}
		}
	}
	if len(prefix) > MaxPrefix {
		return &lockagent.OptionError{
			Option: "Prefix", Reason: fmt.Sprintf("it has %d bytes; use at most %d", len(prefix), MaxPrefix),
		}
	}
	return nil
}

const (
	maxNameTokens = 16
	maxNameBytes  = 512 // NATS closes the connection of a client that sends lines of 4 KiB

	// MaxPrefix leaves room for the longest agent, class and name in a subject that NATS takes.
	MaxPrefix = 128

	emptyToken = "="   // stands for a token without a byte
	hashPrefix = "=-." // begins a name that is too long to spell out
	hashLen    = 16
)

// The classes of records that are not urgent.
const (
	classLock  = "lock"  // the records of locks
	classAgent = "agent" // the signs of life of agents
)

// Urgent reports whether records of kind k have consequences: somebody may have to act. Each
// of them is a message of its own, and its kind is the class of its subject.
func Urgent(k lockagent.EventKind) bool {
	switch k {
	case lockagent.EventLost, lockagent.EventBroken, lockagent.EventExpired, lockagent.EventUnclaimed,
		lockagent.EventUncertain, lockagent.EventStoreReset, lockagent.EventGraceBegan, lockagent.EventGraceEnded,
		lockagent.EventAgentStarted, lockagent.EventAgentStopped, lockagent.EventDropped:
		return true
	}
	return false
}

// Class returns the class of the records of kind k in subjects. It is the kind itself if that
// is [Urgent], "agent" for EventAlive, and "lock" for all others.
func Class(k lockagent.EventKind) string {
	switch {
	case Urgent(k):
		return k.String()
	case k == lockagent.EventAlive:
		return classAgent
	}
	return classLock
}

// AppendSubject appends the subject of a record to b:
//
//	<prefix>.<agent>.<class>.<name>
//
// prefix is [DefaultPrefix] unless another one is configured, and the class is the [Class] of
// kind. The name is one token for each of the parts that '/' separates, so that
// "lockagent.v1.*.*.billing.invoices.>" is every lock below billing/invoices/.
// Within a token letters, digits, '_' and '-' stand for themselves, and any other
// byte is '=' and two hexadecimal digits. A token without a byte is "=", which
// makes "=" the name in events that are about no lock.
//
// A name of more than 16 tokens or 512 encoded bytes becomes two tokens: "=-", and the
// first 16 bytes of its SHA-256 in hexadecimal digits. The name itself is in the event.
//
// agent must consist of letters, digits, '_' and '-' only.
func AppendSubject(
	b []byte, prefix string, agent lockagent.AgentID, kind lockagent.EventKind, name lockagent.Name,
) []byte {
	b = append(append(b, prefix...), '.')
	b = append(append(b, agent...), '.')
	b = append(append(b, Class(kind)...), '.')
	return appendName(b, string(name))
}

// AppendName appends the name of a lock to b as it stands in a subject: see [AppendSubject].
func AppendName(b []byte, name lockagent.Name) []byte { return appendName(b, string(name)) }

func appendName(b []byte, name string) []byte {
	start, rest := len(b), name
	for tokens := 1; tokens <= maxNameTokens; tokens++ {
		part, more, found := strings.Cut(rest, "/")
		b = appendToken(b, part)
		if len(b)-start > maxNameBytes {
			break
		}
		if !found {
			return b
		}
		b = append(b, '.')
		rest = more
	}
	return appendHash(b[:start], name)
}

// appendToken appends the token of one part of a name.
func appendToken(b []byte, part string) []byte {
	if part == "" {
		return append(b, emptyToken...)
	}
	for i := range len(part) {
		if c := part[i]; plain(c) {
			b = append(b, c)
		} else {
			b = append(b, '=', wire.HexDigits[c>>4], wire.HexDigits[c&15])
		}
	}
	return b
}

func appendHash(b []byte, name string) []byte {
	sum := sha256.Sum256([]byte(name))
	return hex.AppendEncode(append(b, hashPrefix...), sum[:hashLen])
}

// plain reports whether c stands for itself in a subject.
func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// PlainToken reports whether token has plain bytes only, and at least one.
func PlainToken(token string) bool {
	for i := range len(token) {
		if !plain(token[i]) {
			return false
		}
	}
	return token != ""
}

// Subject is what the subject of a record tells about it.
type Subject struct {
	Agent lockagent.AgentID

	// Class is the [Class] of the record's kind, or one that this version does not know.
	Class string

	// Lock is empty if the record is about no lock, or if Hashed.
	Lock lockagent.Name

	// Hashed is true if the name of the lock was too long to be spelled out.
	Hashed bool
}

// ParseSubject is the inverse of [AppendSubject]. It returns an error for a text
// that AppendSubject does not make with this prefix. A class that it does not know is none.
func ParseSubject(prefix, text string) (Subject, error) {
	bad := func(format string, args ...any) (Subject, error) {
		return Subject{}, fmt.Errorf("events: subject %q: %s", text, fmt.Sprintf(format, args...))
	}
	rest, ok := strings.CutPrefix(text, prefix+".")
	parts := strings.SplitN(rest, ".", 3)
	if !ok || len(parts) < 3 {
		return bad("it is not %s.<agent>.<class>.<name>", prefix)
	}
	s := Subject{Agent: lockagent.AgentID(parts[0]), Class: parts[1]}
	if !validAgent(s.Agent) {
		return bad("bad agent %q", s.Agent)
	}
	if !PlainToken(s.Class) {
		return bad("bad class %q", s.Class)
	}
	if sum, ok := strings.CutPrefix(parts[2], hashPrefix); ok {
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
				c = byte(strings.IndexByte(wire.HexDigits, token[j+1])<<4 | strings.IndexByte(wire.HexDigits, token[j+2]))
				j += 2
			}
			name = append(name, c)
		}
	}
	return string(name)
}

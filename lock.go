package lockagent

import (
	"crypto/rand"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of what names and leases may be.
const (
	// MaxNameLen bounds a [Name] and an [Owner], in bytes.
	MaxNameLen = 512

	// MinLease is the shortest lease: stores count leases in milliseconds.
	MinLease = time.Millisecond

	// MaxLease is the longest lease. A lock meant to be held for longer wants
	// a kept lease, which has no end while its owner lives.
	MaxLease = 365 * 24 * time.Hour

	// MaxToken is the greatest token: the last integer that a double, and so
	// JSON and Lua, can count up to without a gap.
	MaxToken Token = 1<<53 - 1
)

// Name names a lock. Names are compared byte by byte.
//
// A Name made by [ParseName] is valid; a conversion from a string is not
// checked until it is used.
type Name string

// ParseName checks s and returns it as a [Name]. It returns a [*NameError] for
// a name that is empty, longer than [MaxNameLen] bytes, not valid UTF-8, or that
// a Redis Cluster could acquire but never release because the keys of the lock
// would fall into different slots: "x{", "a}b", "{}z".
func ParseName(s string) (Name, error) {
	if reason := badText(s); reason != "" {
		return "", &NameError{Name: s, Reason: reason}
	}
	if reason := badTag(s); reason != "" {
		return "", &NameError{Name: s, Reason: reason}
	}
	return Name(s), nil
}

// Owner is who holds a lock: an identity that the application chooses, or a
// unique one that the agent makes for a request without a session.
type Owner string

// ParseOwner checks s and returns it as an [Owner]. It returns an [*OwnerError]
// for an owner that is empty, longer than [MaxNameLen] bytes or not valid UTF-8.
func ParseOwner(s string) (Owner, error) {
	if reason := badText(s); reason != "" {
		return "", &OwnerError{Owner: s, Reason: reason}
	}
	return Owner(s), nil
}

func badText(s string) string {
	switch {
	case s == "":
		return "it is empty"
	case len(s) > MaxNameLen:
		return fmt.Sprintf("it has %d bytes, the limit is %d", len(s), MaxNameLen)
	case !utf8.ValidString(s):
		return "it is not valid UTF-8"
	}
	return ""
}

// badTag says why a cluster would route the keys of lock s to different slots.
// A cluster hashes what stands between the first '{' and the next '}', or the
// whole key if there is nothing. The auxiliary keys of a lock wrap a name
// without '{' in braces and take a name with '{' as it is, so both forms agree
// only when the first brace opens a tag that is not empty and is closed.
func badTag(s string) string {
	open, end := strings.IndexByte(s, '{'), strings.IndexByte(s, '}')
	switch {
	case open < 0 && end < 0:
		return ""
	case open < 0:
		return "it has a '}' without a '{', so a cluster could not release it; leave the braces out or balance them"
	case end >= 0 && end < open:
		return "it has a '}' before its first '{', and clients disagree about the slot of that in a cluster; leave the braces out or balance them"
	case end < 0:
		return "it has a '{' without a '}', so a cluster could not release it; leave the braces out or balance them"
	case end == open+1:
		return "it has nothing between its first braces, so a cluster could not release it; name a hash tag there or leave the braces out"
	}
	return ""
}

// Token is the fencing number of a grant. Every grant of a lock has a greater
// token than all grants of that lock before it, whoever granted them. Tokens are
// greater than zero and at most [MaxToken]; zero means that nothing is held.
//
// Tokens are not consecutive. They are close to microseconds of the store's
// clock, but nothing may be concluded from the distance of two of them.
type Token uint64

// AgentID identifies one agent for the time it runs: a random UUID in its
// lower-case text form.
type AgentID string

// NewAgentID makes a new random identity (UUID version 4).
func NewAgentID() AgentID {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, see its documentation
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return AgentID(fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]))
}

// CheckLease returns an [*OptionError] unless d is between [MinLease] and
// [MaxLease].
func CheckLease(d time.Duration) error {
	switch {
	case d < MinLease:
		return &OptionError{Option: "lease", Reason: fmt.Sprintf("%v is shorter than the shortest lease, %v; leave it out for a lease that is kept", d, MinLease)}
	case d > MaxLease:
		return &OptionError{Option: "lease", Reason: fmt.Sprintf("%v is longer than the longest lease, %v; leave it out for a lease that is kept", d, MaxLease)}
	}
	return nil
}

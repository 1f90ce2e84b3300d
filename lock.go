package lockagent

import (
	"crypto/rand"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of names, leases and tokens.
const (
	// MaxNameLen bounds a [Name] and an [Owner], in bytes.
	MaxNameLen = 512

	// MinLease is the shortest lease: stores count leases in milliseconds.
	MinLease = time.Millisecond

	// MaxLease is the longest lease. To hold a lock for longer, use a kept lease: it has no
	// end while its process lives and reaches the store.
	MaxLease = 365 * 24 * time.Hour

	// MaxToken is the greatest token: up to it a double represents every integer, and so do
	// JSON and Lua.
	MaxToken Token = 1<<53 - 1
)

// Name names a lock. Names are compared byte by byte.
//
// A Name made by [ParseName] is valid. A Name converted from a string is checked when it is
// used.
type Name string

// ParseName checks s and returns it as a [Name]. It returns a [*NameError] if s is empty,
// longer than [MaxNameLen] bytes or not valid UTF-8. It also refuses some braces, as in
// "x{", "a}b" and "{}z": a Redis Cluster would have the keys of such a lock in different
// slots. It could acquire the lock, but never release it.
func ParseName(s string) (Name, error) {
	if reason := badText(s); reason != "" {
		return "", &NameError{Name: s, Reason: reason}
	}
	if reason := badTag(s); reason != "" {
		return "", &NameError{Name: s, Reason: reason}
	}
	return Name(s), nil
}

// Owner holds a lock. The application chooses the owner of a session. A request without a
// session has a unique owner, which the agent makes.
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

// badTag says why a cluster would have the keys of lock s in different slots. A cluster
// hashes the text between the first '{' and the next '}' of a key, or the whole key if
// there is no such text. The key of a lock is its name. The other keys of the lock wrap a
// name without '{' in braces, and take a name with '{' as it is. So a name with braces needs
// a tag: its first brace is a '{', and the next '}' closes it after some text. For example:
//
//	a       a   and queue:{a}    are in the slot of a
//	{a}b    {a}b and queue::{a}b are in the slot of a
//	a}b     a}b is in the slot of a}b, but queue:{a}b} in that of a
func badTag(s string) string {
	open, end := strings.IndexByte(s, '{'), strings.IndexByte(s, '}')
	switch {
	case open < 0 && end < 0:
		return ""
	case open < 0:
		return "it has a '}' without a '{', so a cluster could not release it; leave the braces out or balance them"
	case end >= 0 && end < open:
		return "it has a '}' before its first '{', and clients disagree about the slot of that in a cluster; leave the " +
			"braces out or balance them"
	case end < 0:
		return "it has a '{' without a '}', so a cluster could not release it; leave the braces out or balance them"
	case end == open+1:
		return "it has nothing between its first braces, so a cluster could not release it; name a hash tag there or leave " +
			"the braces out"
	}
	return ""
}

// Token is the fencing number of a hold. Every hold of a lock has a greater token than all
// holds of that lock before it, on all agents. Only readers in several agents may have the same token, or tokens out of
// order. Re-entries of a hold have its token. Tokens are greater than zero and at most [MaxToken]; zero means that
// nothing is held.
//
// Tokens are not consecutive. They are close to microseconds of the store's clock, but the
// distance of two tokens means nothing.
type Token uint64

// AgentID identifies one agent for the time it runs: a random UUID in its
// lower-case text form.
type AgentID string

// NewAgentID makes a new random identity. It is a UUID of version 8. Redisson's are of version 4, so a
// store can tell by the identity of a holder that the holder is an agent.
func NewAgentID() AgentID {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, see its documentation
	b[6] = b[6]&0x0f | 0x80
	b[8] = b[8]&0x3f | 0x80
	return AgentID(fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]))
}

// CheckLease returns an [*OptionError] unless d is between [MinLease] and
// [MaxLease].
func CheckLease(d time.Duration) error {
	switch {
	case d < MinLease:
		return &OptionError{
			Option: "lease",
			Reason: fmt.Sprintf("%v is shorter than the shortest lease, %v; leave it out for a lease that is kept", d, MinLease),
		}
	case d > MaxLease:
		return &OptionError{
			Option: "lease",
			Reason: fmt.Sprintf("%v is longer than the longest lease, %v; leave it out for a lease that is kept", d, MaxLease),
		}
	}
	return nil
}

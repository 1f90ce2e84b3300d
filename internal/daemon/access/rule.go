package access

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Right is something that a rule can allow, or several such things.
type Right uint8

// The rights.
const (
	Acquire Right = 1 << iota // make claims
	Look                      // list locks and show them
	Watch                     // follow what happens to locks
	Operate                   // break locks, and drain the daemon
)

// rightNames are what rules call the rights.
var rightNames = []struct {
	right Right
	name  string
}{{Acquire, "acquire"}, {Look, "look"}, {Watch, "watch"}, {Operate, "operate"}}

// RightNames returns what rules call the rights.
func RightNames() []string {
	var names []string
	for _, r := range rightNames {
		names = append(names, r.name)
	}
	return names
}

// ParseRight reads the name of a right.
func ParseRight(name string) (Right, error) {
	for _, r := range rightNames {
		if r.name == name {
			return r.right, nil
		}
	}
	return 0, fmt.Errorf("there is no right %q; the rights are %s", name, strings.Join(RightNames(), ", "))
}

// String is the names of the rights, with commas between them.
func (r Right) String() string {
	var names []string
	for _, of := range rightNames {
		if r&of.right != 0 {
			names = append(names, of.name)
		}
	}
	return strings.Join(names, ",")
}

// Rule says what somebody may do with some names.
type Rule struct {
	// Users and Groups are names or numbers. The rule is for each of these users, and for the members of each of these
	// groups. If both are empty, it is for everybody.
	Users, Groups []string
	// Match says for which names the rule is. A drain has the empty name, which only a pattern of stars matches.
	Match Pattern
	// Allow is all that the rule allows. It may be nothing.
	Allow Right
}

// Directory knows the users and the groups of the host.
type Directory interface {
	UserID(name string) (uint32, error)
	GroupID(name string) (uint32, error)
}

// Peer is who asks.
type Peer struct {
	UID    uint32
	Groups []uint32 // all of them
}

// compiled is a rule with numbers in place of names.
type compiled struct {
	uids, gids []uint32
	match      Pattern
	allow      Right
}

// compile looks up the names in rules. Its error names the rule, of which the first is 1.
func compile(rules []Rule, directory Directory) ([]compiled, error) {
	all := make([]compiled, len(rules))
	for i, r := range rules {
		uids, err := numbers(r.Users, directory.UserID)
		if err != nil {
			return nil, fmt.Errorf("rule %d: user %w", i+1, err)
		}
		gids, err := numbers(r.Groups, directory.GroupID)
		if err != nil {
			return nil, fmt.Errorf("rule %d: group %w", i+1, err)
		}
		all[i] = compiled{uids, gids, r.Match, r.Allow}
	}
	return all, nil
}

// numbers looks up what is no number.
func numbers(names []string, lookUp func(name string) (uint32, error)) ([]uint32, error) {
	var all []uint32
	for _, name := range names {
		id, err := strconv.ParseUint(name, 10, 32)
		if err != nil {
			found, err := lookUp(name)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", name, err)
			}
			id = uint64(found)
		}
		all = append(all, uint32(id))
	}
	return all, nil
}

// isFor reports whether the rule is for a peer.
func (r *compiled) isFor(p Peer) bool {
	if len(r.uids) == 0 && len(r.gids) == 0 || slices.Contains(r.uids, p.UID) {
		return true
	}
	for _, gid := range r.gids {
		if slices.Contains(p.Groups, gid) {
			return true
		}
	}
	return false
}

//go:build linux

package main

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/lockagent/lockagent"
)

// heldVariable has the locks that a command runs under: those of its lockagent lock, and before them those of its
// ancestors. They are separated by blanks. Each is a name, as in the query of a URL, with its token and its session.
const heldVariable = "LOCKAGENT_HELD"

// ancestry is the locks that this process runs under.
type ancestry []ancestor

type ancestor struct {
	name    lockagent.Name
	token   lockagent.Token
	session string
}

// heldByAncestors reads the variable. What it cannot read it leaves out: no lock is safer for that.
func heldByAncestors(text string) (all ancestry) {
	for _, field := range strings.Fields(text) {
		parts := strings.Split(field, ":")
		if len(parts) != 3 {
			continue
		}
		var a ancestor
		name, err := url.QueryUnescape(parts[0])
		if _, failed := fmt.Sscan(parts[1], (*uint64)(&a.token)); err != nil || failed != nil {
			continue
		}
		a.name, a.session = lockagent.Name(name), parts[2]
		all = append(all, a)
	}
	return all
}

// session is that in which an ancestor took the lock last, or empty. A request in the same session is known to the
// daemon as one that would wait for itself.
func (a ancestry) session(name lockagent.Name) (session string) {
	for _, one := range a {
		if one.name == name {
			session = one.session
		}
	}
	return session
}

// holds is how often ancestors have taken the lock.
func (a ancestry) holds(name lockagent.Name) (n int) {
	for _, one := range a {
		if one.name == name {
			n++
		}
	}
	return n
}

// with adds claims.
func (a ancestry) with(claims []*claimed, sessions map[lockagent.Name]string) ancestry {
	for _, c := range claims {
		a = append(a, ancestor{c.name, c.token, sessions[c.name]})
	}
	return a
}

func (a ancestry) String() string {
	var fields []string
	for _, one := range a {
		fields = append(fields, fmt.Sprintf("%s:%d:%s", url.QueryEscape(string(one.name)), one.token, one.session))
	}
	return strings.Join(fields, " ")
}

//go:build linux

package lockcmd

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/lockagent/lockagent"
)

// heldVariable has the locks that a command runs under: those of its lockagent lock, and before them those of its
// ancestors. They are separated by blanks. Each is a name, as in the query of a URL, with its token and its session,
// and then with s if others may share it.
const heldVariable = "LOCKAGENT_HELD"

// ancestry is the locks that this process runs under.
type ancestry []ancestor

type ancestor struct {
	name    lockagent.Name
	token   lockagent.Token
	session string
	shared  bool
}

// heldByAncestors reads the variable. What it cannot read it leaves out: no lock is safer for that.
func heldByAncestors(text string) (all ancestry) {
	for _, field := range strings.Fields(text) {
		parts := strings.Split(field, ":")
		if len(parts) < 3 {
			continue
		}
		var a ancestor
		name, err := url.QueryUnescape(parts[0])
		if _, failed := fmt.Sscan(parts[1], (*uint64)(&a.token)); err != nil || failed != nil {
			continue
		}
		a.name, a.session, a.shared = lockagent.Name(name), parts[2], len(parts) > 3 && parts[3] == ofReaders
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

// ofReaders marks a hold that others may share.
const ofReaders = "s"

// shared reports whether an ancestor took the lock last as one that others may share.
func (a ancestry) shared(name lockagent.Name) (shared bool) {
	for _, one := range a {
		if one.name == name {
			shared = one.shared
		}
	}
	return shared
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
func (a ancestry) with(claims []*claimed, sessions map[lockagent.Name]string, shared bool) ancestry {
	for _, c := range claims {
		a = append(a, ancestor{c.name, c.First, sessions[c.name], shared})
	}
	return a
}

func (a ancestry) String() string {
	var fields []string
	for _, one := range a {
		field := fmt.Sprintf("%s:%d:%s", url.QueryEscape(string(one.name)), one.token, one.session)
		if one.shared {
			field += ":" + ofReaders
		}
		fields = append(fields, field)
	}
	return strings.Join(fields, " ")
}

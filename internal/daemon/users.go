//go:build linux

package daemon

import (
	"os/user"
	"strconv"
	"sync"
	"time"

	"github.com/lockagent/lockagent/internal/daemon/access"
)

// Directory has the users and groups of this host.
type Directory struct{}

var _ access.Directory = Directory{}

// UserID implements [access.Directory].
func (Directory) UserID(name string) (uint32, error) {
	found, err := user.Lookup(name)
	if err != nil {
		return 0, err
	}
	return number(found.Uid)
}

// GroupID implements [access.Directory].
func (Directory) GroupID(name string) (uint32, error) {
	found, err := user.LookupGroup(name)
	if err != nil {
		return 0, err
	}
	return number(found.Gid)
}

func number(id string) (uint32, error) {
	n, err := strconv.ParseUint(id, 10, 32)
	return uint32(n), err
}

// userNames remembers the names of users: the system may have to ask another host.
type userNames struct {
	lookup func(uid uint32) (string, error)

	mu    sync.Mutex // guards known
	known map[uint32]userName
}

// userName is the name of a user. If it is empty, the system did not know one then.
type userName struct {
	name string
	at   time.Time
}

const (
	maxKnown    = 1000        // bounds how many names are remembered
	namelessFor = time.Minute // is for how long a user is one without a name, before the system is asked again
)

func newUserNames() *userNames {
	return &userNames{known: make(map[uint32]userName), lookup: func(uid uint32) (string, error) {
		found, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
		if err != nil {
			return "", err
		}
		return found.Username, nil
	}}
}

// name is the name of a user, or empty if the system knows none.
func (u *userNames) name(uid uint32) string {
	u.mu.Lock()
	found, ok := u.known[uid]
	u.mu.Unlock()
	if ok && (found.name != "" || time.Since(found.at) < namelessFor) {
		return found.name
	}
	name, err := u.lookup(uid) // those who ask for others do not wait for it
	if err != nil {
		name = ""
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.known) >= maxKnown {
		clear(u.known)
	}
	u.known[uid] = userName{name, time.Now()}
	return name
}

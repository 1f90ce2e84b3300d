//go:build linux

package daemon

import (
	"os/user"
	"strconv"
	"sync"

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
	mu    sync.Mutex // guards known
	known map[uint32]string
}

// maxKnown bounds how many names are remembered.
const maxKnown = 1000

// name is the name of a user, or empty if the system knows none.
func (u *userNames) name(uid uint32) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	name, ok := u.known[uid]
	if ok {
		return name
	}
	if found, err := user.LookupId(strconv.FormatUint(uint64(uid), 10)); err == nil {
		name = found.Username
	}
	if len(u.known) >= maxKnown {
		clear(u.known)
	}
	u.known[uid] = name
	return name
}

package config

import (
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strconv"

	"github.com/lockagent/lockagent/internal/nearest"
)

// Names are the users and groups of a host.
type Names interface {
	// User and Group return [user.UnknownUserError] and [user.UnknownGroupError] for a name that the host does not
	// have.
	User(name string) error
	Group(name string) error
	// Users and Groups list names that somebody may have meant. They may lack some.
	Users() []string
	Groups() []string
}

// CheckNames returns which users and groups in the settings the host does not have, as [Problems], or nil. [Load] does
// not ask, because another host may have them.
func (c *Config) CheckNames(host Names) error {
	var problems Problems
	look := func(at Origin, key, kind, name string, lookUp func(string) error, known func() []string) {
		if _, err := strconv.ParseUint(name, 10, 32); err == nil || name == "" {
			return
		}
		err := lookUp(name)
		if err == nil {
			return
		}
		why := fmt.Sprintf("names the %s %.64q, which cannot be looked up: %v", kind, name, err)
		if nobody(err) {
			why = fmt.Sprintf("names the %s %.64q, which this host does not have", kind, name)
			if near := nearest.Of(name, slices.Values(known())); near != "" {
				why += "; did you mean " + near + "?"
			}
		}
		problems.add(at, key, "%s", why)
	}
	const group = "socket.group"
	look(c.origins[group], group, "group", c.Settings.Socket.Group, host.Group, host.Groups)
	for i, r := range c.Settings.Rules {
		key := fmt.Sprintf("%s.%d", rulesKey, i+1)
		for _, name := range r.Users {
			look(c.rules[i], key, "user", name, host.User, host.Users)
		}
		for _, name := range r.Groups {
			look(c.rules[i], key, "group", name, host.Group, host.Groups)
		}
	}
	return problems.err()
}

// nobody reports whether the host has nobody of a name.
func nobody(err error) bool {
	if _, ok := errors.AsType[user.UnknownUserError](err); ok {
		return true
	}
	_, ok := errors.AsType[user.UnknownGroupError](err)
	return ok
}

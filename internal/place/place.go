// Package place says where the daemon of a host has its files, unless somebody says otherwise. The daemon, its
// configuration and its clients ask it. So they agree.
package place

import (
	"os"
	"path/filepath"
	"strings"
)

// System is the socket of the daemon of the whole host.
const System = "/run/lockagent/agent.sock"

// MostSocketPath is how many bytes the path of a socket may have.
const MostSocketPath = 107

const (
	socketName  = "agent.sock"
	systemState = "/var/lib/lockagent"
)

// User is whose daemon it is.
type User struct {
	UID int
	// Getenv returns a variable of the environment, or empty.
	Getenv func(name string) string
}

// Current is the user of this process.
func Current() User { return User{os.Getuid(), os.Getenv} }

// StateDir is where a daemon of the user keeps its state. systemd may name several directories for a service, of which
// the first is ours.
func (u User) StateDir() string {
	if dir := u.first("STATE_DIRECTORY"); dir != "" {
		return dir
	}
	return u.ownStateDir()
}

func (u User) ownStateDir() string {
	home, state := u.Getenv("HOME"), u.Getenv("XDG_STATE_HOME")
	switch {
	case u.UID != 0 && state != "":
		return filepath.Join(state, "lockagent")
	case u.UID != 0 && home != "":
		return filepath.Join(home, ".local/state/lockagent")
	}
	return systemState
}

// Socket is where a daemon of the user listens whose state is in stateDir.
func (u User) Socket(stateDir string) string {
	if dir := u.first("RUNTIME_DIRECTORY"); dir != "" {
		return filepath.Join(dir, socketName)
	}
	return u.ownSocket(stateDir)
}

func (u User) ownSocket(stateDir string) string {
	runtime := u.Getenv("XDG_RUNTIME_DIR")
	switch {
	case u.UID == 0:
		return System
	case runtime != "":
		return filepath.Join(runtime, "lockagent", socketName)
	}
	return filepath.Join(stateDir, socketName)
}

// Find is where a client of the user finds a daemon that it was not told of: where the user's daemon listens by
// default. If nothing is there, and the daemon of the host has a socket, it is that one. No settings of the daemon
// count: the client may not be able to read them. What systemd sets for a service counts for daemons only: the client
// may be another service.
func (u User) Find() string {
	own := u.ownSocket(u.ownStateDir())
	if !exists(own) && exists(System) {
		return System
	}
	return own
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// first is the first path in a variable of systemd.
func (u User) first(variable string) string {
	dir, _, _ := strings.Cut(u.Getenv(variable), ":")
	return dir
}

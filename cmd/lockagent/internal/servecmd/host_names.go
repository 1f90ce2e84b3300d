package servecmd

import (
	"os"
	"os/user"
	"strings"

	"github.com/lockagent/lockagent/internal/config"
)

// hostNames are the users and groups of this host.
type hostNames struct{}

var _ config.Names = hostNames{}

// User implements [config.Names].
func (hostNames) User(name string) error {
	_, err := user.Lookup(name)
	return err
}

// Group implements [config.Names].
func (hostNames) Group(name string) error {
	_, err := user.LookupGroup(name)
	return err
}

// Users implements [config.Names]. It has those of the file, and not those of a directory in the network.
func (hostNames) Users() []string { return namesIn("/etc/passwd") }

// Groups implements [config.Names], as Users does.
func (hostNames) Groups() []string { return namesIn("/etc/group") }

// namesIn are the first fields of a file of users or groups. A file that cannot be read has nothing that somebody may
// have meant.
func namesIn(file string) (names []string) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		if name, _, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(name, "#") {
			names = append(names, name)
		}
	}
	return names
}

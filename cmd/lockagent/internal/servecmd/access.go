//go:build linux

package servecmd

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/internal/config"
	"github.com/lockagent/lockagent/internal/daemon"
	"github.com/lockagent/lockagent/internal/daemon/access"
	"github.com/lockagent/lockagent/internal/daemon/socket"
)

// openAccess makes the rules and the limits of the settings count.
func (s *server) openAccess() (err error) {
	if err := checkNames(s.cmd, s.config.Load()); err != nil {
		return err
	}
	settings := s.settings()
	connections, processes, err := socket.Room()
	if err != nil {
		return err
	}
	s.access, err = access.New(access.Config{
		Self: uint32(os.Geteuid()), Directory: daemon.Directory{}, Now: time.Now,
		Refused: func(uid uint32, err error, unsaid uint64) {
			s.logger.Warn("refused", "user", strconv.FormatUint(uint64(uid), 10), "why", err, "unsaid", unsaid)
		},
		Rules: settings.Rules, Limits: settings.Limits.Limits,
		Room: access.Room{Connections: connections, Processes: processes},
	})
	if err != nil {
		return badRules(s.config.Load(), err)
	}
	return nil
}

// badRules is the error of rules about users or groups that this host does not know.
func badRules(c *config.Config, err error) error {
	return &cli.Failure{
		Code: cli.ExitConfig, Err: fmt.Errorf("%s: %w", c.File, err),
		Try: "getent passwd; getent group    (show those that there are)",
	}
}

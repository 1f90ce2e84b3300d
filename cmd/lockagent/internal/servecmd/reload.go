//go:build linux

package servecmd

import (
	"errors"
	"fmt"

	"github.com/lockagent/lockagent/internal/bootclock"
	"github.com/lockagent/lockagent/internal/config"
)

// reload reads the configuration file again. If anything in it is wrong, the daemon goes on with what it has.
func (s *server) reload() {
	s.notify("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", (bootclock.Now()-bootclock.Suspended()).Microseconds()))
	defer s.notify("READY=1", "STATUS=Serving "+s.daemon.Address())
	next, changes, err := s.config.Load().Reload()
	if err == nil {
		err = next.CheckNames(hostNames{})
	}
	if err == nil {
		// The rules come last: they may name users that this host does not know. Nothing else has changed by then.
		if err = s.access.Replace(next.Settings.Rules, next.Settings.Limits.Limits); err != nil {
			err = badRules(next, err)
		}
	}
	if problems, ok := errors.AsType[config.Problems](err); ok {
		for _, p := range problems {
			s.logger.Error("a setting is wrong", "problem", p.Error())
		}
	} else if err != nil {
		s.logger.Error("a setting is wrong", "problem", err.Error())
	}
	if err != nil {
		s.logger.Error("the settings were not reloaded: the old ones go on counting")
		return
	}
	s.config.Store(next)
	s.level.Set(levelOf(next))
	for _, c := range changes {
		what := "a setting has changed"
		if c.Restart {
			what = "a setting has changed, and needs a restart to count"
		}
		s.logger.Info(what, "setting", c.Setting.Key, "old", c.Old, "new", c.New)
	}
	s.logger.Info("the settings were reloaded", "changes", len(changes))
}

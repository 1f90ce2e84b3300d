//go:build linux

package main

import (
	"github.com/lockagent/lockagent/cmd/lockagent/internal/lockcmd"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/lookcmd"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/servecmd"
)

// lockVerbs are those that take locks through the daemon.
func lockVerbs() []verb {
	return []verb{
		{"lock", "locks", lockcmd.NewLock},
		{"acquire", "locks", lockcmd.NewAcquire},
		{"renew", "locks", lockcmd.NewRenew},
		{"release", "locks", lockcmd.NewRelease},
		{"attach", "locks", lockcmd.NewAttach},
		{"check", "locks", lockcmd.NewCheck},
		{"slots", "locks", lockcmd.NewSlots},
	}
}

// lookVerbs are those that look at the locks of the daemon.
func lookVerbs() []verb {
	return []verb{
		{"ls", "look", lookcmd.NewLs},
		{"show", "look", lookcmd.NewShow},
		{"watch", "look", lookcmd.NewWatch},
		{"top", "look", lookcmd.NewTop},
	}
}

// operateVerbs are those of operators.
func operateVerbs() []verb {
	return []verb{
		{"break", "operate", lockcmd.NewBreak},
		{"drain", "operate", lockcmd.NewDrain},
		{"doctor", "operate", servecmd.NewDoctor},
	}
}

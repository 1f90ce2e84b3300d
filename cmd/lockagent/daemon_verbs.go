//go:build linux

package main

import "github.com/spf13/cobra"

// lockVerbs are those that take locks through the daemon.
func lockVerbs() []*cobra.Command {
	return []*cobra.Command{newLock(), newAcquire(), newRenew(), newRelease(), newAttach(), newCheck(), newSlots()}
}

// lookVerbs are those that look at the locks of the daemon.
func lookVerbs() []*cobra.Command { return []*cobra.Command{newLs(), newShow(), newWatch(), newTop()} }

// operateVerbs are those of operators.
func operateVerbs() []*cobra.Command { return []*cobra.Command{newBreak(), newDrain(), newDoctor()} }

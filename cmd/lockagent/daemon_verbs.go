//go:build linux

package main

// lockVerbs are those that take locks through the daemon.
func lockVerbs() []verb {
	return []verb{
		{"lock", "locks", newLock},
		{"acquire", "locks", newAcquire},
		{"renew", "locks", newRenew},
		{"release", "locks", newRelease},
		{"attach", "locks", newAttach},
		{"check", "locks", newCheck},
		{"slots", "locks", newSlots},
	}
}

// lookVerbs are those that look at the locks of the daemon.
func lookVerbs() []verb {
	return []verb{{"ls", "look", newLs}, {"show", "look", newShow}, {"watch", "look", newWatch}, {"top", "look", newTop}}
}

// operateVerbs are those of operators.
func operateVerbs() []verb {
	return []verb{{"break", "operate", newBreak}, {"drain", "operate", newDrain}, {"doctor", "operate", newDoctor}}
}

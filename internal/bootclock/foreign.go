package bootclock

import (
	"errors"
	"fmt"
	"strings"
)

// Foreign says why an instant of another process means nothing to this one, or returns nil if both read the same clock.
// other is the other's [Clock]. Two clocks of which one is not known may differ.
func Foreign(other string) error { return foreign(Clock(), other) }

func foreign(own, other string) error {
	const unknown = "%s cannot read /proc/sys/kernel/random/boot_id, so nobody knows whether its clock is that of " +
		"others; have it see that file: a unit of systemd needs ProcSubset=all"
	boot, _, _ := strings.Cut(own, "/")
	otherBoot, _, _ := strings.Cut(other, "/")
	switch {
	case own == "":
		return fmt.Errorf(unknown, "this process")
	case other == "":
		return fmt.Errorf(unknown, "the other process")
	case own == other:
		return nil
	case boot == otherBoot:
		return errors.New("the other process is in another time namespace, and has another clock; run both in the same one")
	}
	return errors.New(
		"the other process is on another machine, or of another boot, and has another clock; use one of this machine",
	)
}

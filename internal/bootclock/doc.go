// Package bootclock reads the clock that goes on while the machine is suspended. All processes of
// one machine read the same clock, until the machine is booted again. So an instant of it means the same in each of
// them, as long as they compare the id of the boot as well.
package bootclock

// Package machinetest is for tests that need something of the machine, such as a program that is installed, or a
// process that stands still.
package machinetest

import (
	"errors"
	"os"
	"runtime"
	"testing"
)

// Needs ends a test if err, which says what the machine lacks, is not nil. On a CI machine that is a failure. Elsewhere
// the test is skipped.
func Needs(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
}

// NeedsRoot is [Needs] for a test that only root can do.
func NeedsRoot(t testing.TB) {
	t.Helper()
	var err error
	if os.Geteuid() != 0 {
		err = errors.New("only root can do this: run the test as root")
	}
	Needs(t, err)
}

// NeedsLinux is [Needs] for a test of what only Linux has.
func NeedsLinux(t testing.TB) {
	t.Helper()
	var err error
	if runtime.GOOS != "linux" {
		err = errors.New("only Linux has this: run the test on Linux")
	}
	Needs(t, err)
}

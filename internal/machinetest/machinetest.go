// Package machinetest is for tests that need something of the machine, such as a program that is installed.
package machinetest

import (
	"os"
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

//go:build soak

package quorum_test

import "testing"

func TestSoakMischief(t *testing.T) { mischief(t, 100) }

//go:build soak

package events

import "testing"

func TestSoakCorruptedTenMinutes(t *testing.T) { corruptedTenMinutes(t, 10) }

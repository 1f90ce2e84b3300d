//go:build soak

package natslog

import "testing"

func TestSoakCorruptedTenMinutes(t *testing.T) { corruptedTenMinutes(t, 10) }

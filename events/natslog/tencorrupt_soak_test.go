//go:build soak

package natslog

import "testing"

func TestSoakCorruptedTenMinutes(t *testing.T) { corrupted(t, orderlyMinutes(t), 10) }

package redisstore

import "testing"

func TestAtLeast(t *testing.T) {
	for version, want := range map[string]bool{
		"6.2.0": true, "6.2": true, "6.10.1": true, "7.0.15": true, "10.0": true, "8.0.0-rc1": true,
		"6.1.99": false, "6.0": false, "5.9": false, "6": false, "": false, "unstable": false, "255.255.255": true,
	} {
		if got := atLeast(version, 6, 2); got != want {
			t.Errorf("atLeast(%q, 6, 2) = %t", version, got)
		}
	}
}

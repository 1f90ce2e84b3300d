//go:build !linux

package main

import "time"

// sleep does not even yield for no time.
func sleep(d time.Duration) {
	if d > 0 {
		time.Sleep(d)
	}
}

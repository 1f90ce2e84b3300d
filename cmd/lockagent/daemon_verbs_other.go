//go:build !linux

package main

// There are none: the daemon needs Linux.

func lockVerbs() []verb    { return nil }
func lookVerbs() []verb    { return nil }
func operateVerbs() []verb { return nil }

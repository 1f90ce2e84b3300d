//go:build !linux

package main

import "github.com/spf13/cobra"

// There are none: the daemon needs Linux.

func lockVerbs() []*cobra.Command    { return nil }
func lookVerbs() []*cobra.Command    { return nil }
func operateVerbs() []*cobra.Command { return nil }

// Package quorum makes one lockagent.Store of several.
package quorum

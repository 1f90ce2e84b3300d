// Package daemon is the daemon of a host: one agent that holds locks for all programs of the host. It puts its parts
// together, and starts and ends them. Package claims has what clients hold, package api what they can call, and package
// socket how they connect.
package daemon

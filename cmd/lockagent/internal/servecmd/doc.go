// Package servecmd has the daemon as a verb, serve, and those about its settings and its health: config and doctor. It
// puts together what the settings say: the store, the event log, the hub, telemetry, and the live page.
package servecmd

// Package eventtext makes lines of the events of a log, for people.
package eventtext

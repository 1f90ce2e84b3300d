package events

import "slices"

// Match reports whether f selects r. It is for records that are not read from a stream, where
// the server does a part of it. f must be valid: see [Filter.Validate].
func (f Filter) Match(r Record) bool {
	return (len(f.Agents) == 0 || slices.Contains(f.Agents, r.Agent)) && f.selects(&r)
}

// Validate returns a [*lockagent.OptionError] for what can select nothing. A [Reader] does the same.
func (f Filter) Validate() error { return f.check() }

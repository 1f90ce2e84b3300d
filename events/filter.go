package events

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockagent/lockagent"
)

// Filter selects records. The zero Filter selects all; the fields that are set
// must all fit.
//
// An [audit.Audit] needs the records of all locks and kinds, or it takes those that
// were filtered out for missing.
type Filter struct {
	// Lock is the name of a lock.
	Lock lockagent.Name

	// Pattern is an alternative to Lock and selects a hierarchy of locks, whose names have parts
	// with '/' between them. A part '*' stands for any one part, and a last part '>' for one
	// or more: "orders/*" is each lock directly below orders, "orders/>" all below it, "*/42/>"
	// all below 42 of any kind. Other parts stand for themselves. A name whose own parts are
	// '*' or '>' is selected by Lock.
	Pattern string

	Agents []lockagent.AgentID // any of them
	Owner  lockagent.Owner

	// Kinds are those of the records, any of them. EventGranted and EventReleased also select
	// EventHeld, which tells of both, and EventReturned each record that says when the
	// tenure was returned.
	Kinds []lockagent.EventKind

	// Urgent selects the records that have consequences: see [Urgent].
	Urgent bool
}

// Validate returns a [*lockagent.OptionError] for what can select nothing.
func (f Filter) Validate() error {
	bad := func(format string, args ...any) error {
		return &lockagent.OptionError{Option: "filter", Reason: fmt.Sprintf(format, args...)}
	}
	for _, agent := range f.Agents {
		if !validAgent(agent) {
			return bad("%q is no agent: a name is 1 to 64 letters, digits, '-' and '_'", agent)
		}
	}
	for _, k := range f.Kinds {
		if !validKind(k) {
			return bad("%d is no kind of event", k)
		}
	}
	if f.Lock != "" && f.Pattern != "" {
		return bad("give either a lock or a pattern of locks")
	}
	if i := slices.Index(f.parts(), ">"); i >= 0 && i < len(f.parts())-1 {
		return bad("'>' is not the last part of the pattern %q; use '*' for one part", f.Pattern)
	}
	if f.Urgent && len(f.Kinds) > 0 && !slices.ContainsFunc(f.Kinds, Urgent) {
		return bad("none of the kinds %v has consequences", f.Kinds)
	}
	return nil
}

// Match reports whether f selects r. f must be valid: see [Filter.Validate].
func (f *Filter) Match(r *Record) bool {
	return (len(f.Agents) == 0 || slices.Contains(f.Agents, r.Agent)) && f.selects(r)
}

// selects reports whether f selects r, which came under one of the subjects of f.
func (f *Filter) selects(r *Record) bool {
	switch {
	case f.Owner != "" && f.Owner != r.Owner:
	case f.Lock != "" && f.Lock != r.Lock:
	case f.Pattern != "" && !f.matches(string(r.Lock)):
	case f.Urgent && !Urgent(r.Kind):
	case len(f.Kinds) > 0 && !f.tells(r):
	default:
		return true
	}
	return false
}

// tells reports whether r tells of one of the kinds.
func (f *Filter) tells(r *Record) bool {
	for _, k := range f.Kinds {
		switch {
		case k == r.Kind,
			r.Kind == lockagent.EventHeld && (k == lockagent.EventGranted || k == lockagent.EventReleased),
			k == lockagent.EventReturned && r.Returned != 0:
			return true
		}
	}
	return false
}

func (f *Filter) parts() []string {
	if f.Pattern == "" {
		return nil
	}
	return strings.Split(f.Pattern, "/")
}

// matches reports whether a lock has a name that fits the pattern.
func (f *Filter) matches(name string) bool {
	if name == "" {
		return false // it is about no lock
	}
	pattern := f.Pattern
	for {
		part, morePattern, moreParts := strings.Cut(pattern, "/")
		if part == ">" && !moreParts {
			return true
		}
		own, rest, more := strings.Cut(name, "/")
		if part != "*" && part != own || more != moreParts {
			return false
		}
		if !more {
			return true
		}
		pattern, name = morePattern, rest
	}
}

// Subjects are subjects of all that f selects, and perhaps of more. None of them overlaps
// another, because a server refuses that.
func (f *Filter) Subjects(prefix string) []string {
	if f.Lock == "" && f.Pattern == "" && len(f.Agents) == 0 && len(f.Kinds) == 0 && !f.Urgent {
		return []string{prefix + ".>"}
	}
	agents, classes, names := []string{"*"}, f.classes(), f.names()
	if len(f.Agents) > 0 {
		agents = nil
		for _, agent := range f.Agents {
			agents = append(agents, string(agent))
		}
	}
	var subjects []string
	for _, agent := range agents {
		for _, class := range classes {
			for _, name := range names {
				subjects = append(subjects, prefix+"."+agent+"."+class+"."+name)
			}
		}
	}
	slices.Sort(subjects)
	return slices.Compact(subjects)
}

// classes are those of the kinds that f selects.
func (f *Filter) classes() []string {
	kinds := f.Kinds
	if len(kinds) == 0 && !f.Urgent {
		return []string{"*"}
	}
	if len(kinds) == 0 {
		kinds = lockagent.EventKinds()
	}
	var classes []string
	for _, k := range kinds {
		if !f.Urgent || Urgent(k) {
			classes = append(classes, Class(k))
		}
	}
	slices.Sort(classes)
	return slices.Compact(classes)
}

// names are the names in the subjects of the locks that f selects.
func (f *Filter) names() []string {
	if f.Lock != "" {
		return []string{string(appendName(nil, string(f.Lock)))}
	}
	if f.Pattern == "" {
		return []string{">"}
	}
	tokens := f.parts()
	for i, part := range tokens {
		if part != "*" && (part != ">" || i < len(tokens)-1) {
			tokens[i] = string(appendToken(nil, part))
		}
	}
	// Names that are not spelled out are selected after decoding.
	const hashed = hashPrefix + "*"
	spelled := strings.Join(tokens, ".")
	switch {
	case len(tokens) > maxNameTokens || len(spelled) > maxNameBytes:
		return []string{hashed}
	case tokens[0] == ">":
		return []string{">"}
	case tokens[0] == "*" && len(tokens) == 2: // it overlaps hashed
		return []string{"*.>"}
	}
	return []string{spelled, hashed}
}

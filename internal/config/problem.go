package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// OriginKind is where a value can come from.
type OriginKind string

// The kinds, the weakest first.
const (
	FromDefault  OriginKind = "default"
	FromFile     OriginKind = "file"
	FromVariable OriginKind = "variable"
	FromFlag     OriginKind = "flag"
)

// Origin is where a value came from.
type Origin struct {
	Kind OriginKind
	Name string // of the file, the variable or the flag
	Line int    // in the file, or 0
}

// String is the place as a person would look for it.
func (o Origin) String() string {
	switch {
	case o.Kind == FromFlag:
		return "--" + o.Name
	case o.Kind == FromVariable:
		return "$" + o.Name
	case o.Kind == FromFile && o.Line > 0:
		return fmt.Sprintf("%s:%d", o.Name, o.Line)
	case o.Kind == FromFile:
		return o.Name
	}
	return string(FromDefault)
}

// namesOf is the names of settings, one of which somebody has to choose, as they are written at such a place.
func (o Origin) namesOf(keys []string) string {
	names := slices.Clone(keys)
	for i, key := range keys {
		if o.Kind == FromFlag {
			names[i] = "--" + Find(key).Flag
		}
	}
	return strings.Join(names, " or ")
}

// Problem is one thing that is wrong with the settings.
type Problem struct {
	Origin Origin
	Key    string // of the setting, or empty
	Reason string // what is wrong with it
	Cause  error  // why the file cannot be read, or nil
}

// Unwrap returns the Cause.
func (p *Problem) Unwrap() error { return p.Cause }

// Error never repeats what may be a secret.
func (p *Problem) Error() string {
	switch {
	case p.Origin.Kind == FromDefault, p.Origin.Kind == "":
		return strings.TrimSpace(p.Key + " " + p.Reason)
	case p.Origin.Kind == FromFile && p.Key != "":
		return fmt.Sprintf("%s: %s %s", p.Origin, p.Key, p.Reason)
	case p.Origin.Kind == FromFile:
		return fmt.Sprintf("%s: %s", p.Origin, p.Reason)
	}
	return fmt.Sprintf("%s %s", p.Origin, p.Reason)
}

// Problems is everything that is wrong with the settings, in the order of flags, variables and lines.
type Problems []*Problem

// Error has a line for each problem.
func (all Problems) Error() string {
	lines := make([]string, len(all))
	for i, p := range all {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap is for errors.Is and errors.As.
func (all Problems) Unwrap() []error {
	errs := make([]error, len(all))
	for i, p := range all {
		errs[i] = p
	}
	return errs
}

// OnlyFlags reports whether nothing but the command line is wrong.
func (all Problems) OnlyFlags() bool {
	return !slices.ContainsFunc(all, func(p *Problem) bool { return p.Origin.Kind != FromFlag })
}

// add adds a problem.
func (all *Problems) add(at Origin, key, format string, args ...any) {
	*all = append(*all, &Problem{Origin: at, Key: key, Reason: fmt.Sprintf(format, args...)})
}

// err is nil if there are no problems.
func (all Problems) err() error {
	if len(all) == 0 {
		return nil
	}
	rank := []OriginKind{FromFlag, FromVariable, FromFile, FromDefault}
	slices.SortStableFunc(all, func(a, b *Problem) int {
		return cmp.Or(
			cmp.Compare(slices.Index(rank, a.Origin.Kind), slices.Index(rank, b.Origin.Kind)),
			cmp.Compare(a.Origin.Line, b.Origin.Line),
		)
	})
	return all
}

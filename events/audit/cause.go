package audit

import "strings"

func (v Violation) cause() string {
	if v.Kind == Overlap {
		return v.Why
	}
	return string(v.Kind)
}

func (e Explanation) cause() string {
	switch {
	case e.Reset != nil && e.Reset.From == e.Reset.To:
		return "step"
	case e.Reset != nil:
		return "reset"
	case e.BrokenAt != 0 || e.Broken:
		return "break"
	}
	return ""
}

func (u Unproven) cause() string    { return unnamed(u.Why) }
func (b JudgedEarly) cause() string { return unnamed(b.Why) }

// unnamed is the beginning of a reason, up to the name of an agent or a number.
func unnamed(why string) string {
	const agent = "agent "
	switch i := strings.Index(why, agent); {
	case strings.Contains(why, didNotStop):
		return didNotStop
	case i >= 0:
		why = why[:i+len(agent)]
	}
	if i := strings.IndexAny(why, "0123456789"); i >= 0 {
		why = why[:i]
	}
	return why
}

func (g RecordHole) cause() string {
	if g.Lives > 0 {
		return "lives"
	}
	return ""
}

func (Note) cause() string         { return "" }
func (StoreReset) cause() string   { return "" }
func (NamedHold) cause() string    { return "" }
func (LateRecord) cause() string   { return "" }
func (MessageHole) cause() string  { return "" }
func (Tail) cause() string         { return "" }
func (Judged) cause() string       { return "" }
func (Acknowledged) cause() string { return "" }

package audit

import (
	"maps"
	"slices"
)

// findings are what an audit has found for good. The report is without what is known only in the end.
type findings struct{ Report }

// findingKind is one kind of what an audit finds. What treats all kinds alike goes through [findingKinds].
type findingKind struct {
	of        func(*Report) tallied
	verdict   Verdict // to which it leads, or none
	one, many string
	title     string                   // of each in a report
	accepted  func(*Acknowledged) *int // nil if all are kept
}

// tallied is a number of findings, perhaps with the first of them.
type tallied interface {
	count() int
	reset()
	detach() // from its copies
	lines(all []string, title string) []string
}

var findingKinds = []findingKind{
	{
		func(r *Report) tallied { return &r.Violations }, Violated,
		"violation", "violations", "violation: ", nil,
	},
	{
		func(r *Report) tallied { return &r.Explained }, Explained,
		"explained overlap", "explained overlaps", "explained: ", func(k *Acknowledged) *int { return &k.Explained },
	},
	{
		func(r *Report) tallied { return &r.Tails }, "",
		"agent did not stop", "agents did not stop", "not stopped: ", func(k *Acknowledged) *int { return &k.Tails },
	},
	{
		func(r *Report) tallied { return &r.Unproven }, Incomplete,
		"hold is not proven", "holds are not proven", "unproven: ", func(k *Acknowledged) *int { return &k.Unproven },
	},
	{
		func(r *Report) tallied { return &r.RecordHoles }, Incomplete,
		"stretch of records is missing", "stretches of records are missing", "missing: ",
		func(k *Acknowledged) *int { return &k.RecordHoles },
	},
	{
		func(r *Report) tallied { return &r.MessageHoles }, Incomplete,
		"stretch of messages is missing", "stretches of messages are missing", "missing: ",
		func(k *Acknowledged) *int { return &k.MessageHoles },
	},
	{
		func(r *Report) tallied { return &r.JudgedEarly }, Incomplete,
		"time was judged too early", "times were judged too early", "unproven: ",
		func(k *Acknowledged) *int { return &k.JudgedEarly },
	},
	{
		func(r *Report) tallied { return &r.Late }, Incomplete,
		"record came too late", "records came too late", "late: ", func(k *Acknowledged) *int { return &k.Late },
	},
	{
		func(r *Report) tallied { return &r.Uncovered }, Incomplete,
		"part of the time was not judged", "parts of the time were not judged", "not judged: ",
		func(k *Acknowledged) *int { return &k.Uncovered },
	},
	{
		func(r *Report) tallied { return &r.Unreadable }, Incomplete,
		"message cannot be read", "messages cannot be read", "unreadable: ",
		func(k *Acknowledged) *int { return &k.Unreadable },
	},
	{
		func(r *Report) tallied { return (*bare)(&r.Unchecked) }, Incomplete,
		"repetition could not be compared", "repetitions could not be compared", "",
		func(k *Acknowledged) *int { return &k.Unchecked },
	},
	{
		func(r *Report) tallied { return &r.Joined }, Incomplete,
		"store could not be told from another", "stores could not be told from others", "unproven: ",
		func(k *Acknowledged) *int { return &k.Joined },
	},
	{
		func(r *Report) tallied { return (*bare)(&r.Unknown) }, Incomplete,
		"record is of a kind or version that this version does not know",
		"records are of kinds or versions that this version does not know", "",
		func(k *Acknowledged) *int { return &k.Unknown },
	},
	{
		func(r *Report) tallied { return (*bare)(&r.Unjudged) }, Incomplete,
		"hold is of a kind of lock that this version does not judge",
		"holds are of kinds of locks that this version does not judge", "",
		func(k *Acknowledged) *int { return &k.Unjudged },
	},
}

func (l *List[T]) count() int { return l.Count }
func (l *List[T]) reset()     { *l = List[T]{} }

func (l *List[T]) detach() {
	l.First = slices.Clone(l.First)
}

func (l *List[T]) lines(all []string, title string) []string { return list(all, title, *l) }

// bare is one of which there is only the number. Another line of the report tells it.
type bare int

func (n *bare) count() int                            { return int(*n) }
func (n *bare) reset()                                { *n = 0 }
func (n *bare) detach()                               {}
func (n *bare) lines(all []string, _ string) []string { return all }

// leadTo counts the findings that lead to a verdict.
func (r *Report) leadTo(v Verdict) (n int) {
	for i := range findingKinds {
		if k := &findingKinds[i]; k.verdict == v {
			n += k.of(r).count()
		}
	}
	return n
}

// clone is a copy that shares nothing.
func (f *findings) clone() findings {
	c := *f
	c.Losses = maps.Clone(f.Losses)
	for i := range findingKinds {
		findingKinds[i].of(&c.Report).detach()
	}
	c.OpenHolds.detach()
	c.NotJudged.detach()
	c.Resets.detach()
	c.Graces.detach()
	c.Acknowledged = slices.Clone(c.Acknowledged)
	return c
}

// accept sets aside what was found.
func (f *findings) accept(found Acknowledged) {
	for i := range findingKinds {
		findingKinds[i].of(&f.Report).reset()
	}
	f.Assumed = 0
	f.Acknowledged = append(f.Acknowledged, found)
}

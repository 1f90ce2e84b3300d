package natslog

import (
	"testing"

	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/audit"
)

// logAudit is an audit whose reports are held against the second opinion on the same records. Tests make no other one.
type logAudit struct {
	*audit.Audit
	t      testing.TB
	log    []events.Record
	errors []error
}

func newLogAudit(t testing.TB) *logAudit { return &logAudit{Audit: audit.New(), t: t} }

func (a *logAudit) Add(r events.Record) {
	a.log = append(a.log, r)
	a.Audit.Add(r)
}

func (a *logAudit) Visit(r *events.Record, err error) error {
	if err != nil {
		a.errors = append(a.errors, err)
	} else {
		a.log = append(a.log, *r)
	}
	return a.Audit.Visit(r, err)
}

func (a *logAudit) Report() audit.Report {
	a.t.Helper()
	r := a.Audit.Report()
	var second audit.Independent
	for i := range a.log {
		record := a.log[i]
		_ = second.Visit(&record, nil)
	}
	for _, err := range a.errors {
		_ = second.Visit(nil, err)
	}
	if o := second.Opinion(); o.Disagrees(&r) {
		a.t.Fatalf("the second opinion is %+v\nthe report is %v", o, r)
	}
	return r
}

// resumed goes on from a checkpoint.
func (a *logAudit) resumed() *logAudit {
	a.t.Helper()
	text, err := a.Checkpoint()
	if err != nil {
		a.t.Fatal(err)
	}
	resumed, err := audit.Resume(text)
	if err != nil {
		a.t.Fatal(err)
	}
	return &logAudit{resumed, a.t, append([]events.Record(nil), a.log...), append([]error(nil), a.errors...)}
}

// reportOf is the report of a log that has come to its end.
func reportOf(t testing.TB, log []events.Record) audit.Report {
	t.Helper()
	a := newLogAudit(t)
	a.log = log // it only reads them
	for _, r := range log {
		a.Audit.Add(r)
	}
	return a.Report()
}

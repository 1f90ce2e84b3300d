package audit

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/lockagent/lockagent/events"
)

// testAudit is an audit whose reports are held against the second opinion on the same records. Tests make no other one.
type testAudit struct {
	*Audit
	log    []events.Record
	errors []error
}

func newAudit() *testAudit { return &testAudit{Audit: New()} }

// opinionOf is the second opinion on a log.
func opinionOf(log []events.Record, errs ...error) Opinion {
	var x Independent
	for i := range log {
		_ = x.Visit(&log[i], nil)
	}
	for _, err := range errs {
		_ = x.Visit(nil, err)
	}
	return x.Opinion()
}

// agree panics if the second opinion on the log contradicts a report.
func (a *testAudit) agree(r Report) Report {
	log := append([]events.Record(nil), a.log...)
	if o := opinionOf(log, a.errors...); o.Disagrees(&r) {
		panic(fmt.Sprintf("the second opinion is %+v\nthe report is %v\nof %+v", o, r, a.log))
	}
	return r
}

func (a *testAudit) Add(r events.Record) {
	a.log = append(a.log, r)
	a.Audit.Add(r)
}

func (a *testAudit) Visit(r *events.Record, err error) error {
	if err != nil {
		a.errors = append(a.errors, err)
	} else {
		a.log = append(a.log, *r)
	}
	return a.Audit.Visit(r, err)
}

func (a *testAudit) Report() Report { return a.agree(a.Audit.Report()) }

func (a *testAudit) ReportAt(now time.Time) Report { return a.agree(a.Audit.ReportAt(now)) }

// closed is the report on a log that nothing is added to. It is much faster, and the audit cannot go on.
func (a *testAudit) closed() Report { return a.agree(a.close(func(*agentLog) bool { return false })) }

// resumed goes on from a checkpoint.
func (a *testAudit) resumed(t *testing.T) *testAudit {
	t.Helper()
	text, err := a.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	auditor, err := Resume(text)
	if err != nil {
		t.Fatal(err)
	}
	return &testAudit{auditor, append([]events.Record(nil), a.log...), append([]error(nil), a.errors...)}
}

// bareAudits are the files of tests that may make an audit without a second opinion.
var bareAudits = map[string]string{
	"audited_test.go":     "it has the second opinion",
	"natsaudited_test.go": "it has the second opinion",
	"auditbench_test.go":  "it measures the audit alone",
	"example_test.go":     "it shows how a program makes one",
	"within_test.go":      "its reports are about a part of a log",
	"longrun_test.go":     "its logs have no end, so the second opinion has no verdict, and they are too long to be kept",
}

// A report that the second opinion contradicts fails its test.
func TestReportThatTheSecondOpinionContradicts(t *testing.T) {
	overlap := []*story{agent("A").held(1, 1000, 5000).stop(), agent("B").held(1, 2000, 3000).stop()}
	orderly := []*story{agent("A").held(1, 1000, 1500).stop(), agent("B").held(1, 2000, 3000).stop()}
	lie := []*story{agent("A").held(1, 1000, 5000).edit(func(r *events.Record) { r.Returned = clock(2000) }).stop()}
	for _, test := range []struct {
		stories []*story
		verdict Verdict
		fails   bool
	}{
		{overlap, Proven, true},
		{overlap, Violated, false},
		{overlap, Incomplete, false},
		{orderly, Violated, true},
		{orderly, Proven, false},
		{lie, Proven, true},
		{lie, Incomplete, false},
	} {
		a, failed := newAudit(), false
		for _, r := range recordsOf(test.stories) {
			a.Add(r)
		}
		func() {
			defer func() { failed = recover() != nil }()
			a.agree(Report{Verdict: test.verdict})
		}()
		if failed != test.fails {
			t.Errorf("%s, and the second opinion is %+v: it failed %t", test.verdict, opinionOf(a.log), failed)
		}
	}
}

// No test of this package, and of the log in NATS, passes the second opinion by.
func TestTestsHaveASecondOpinion(t *testing.T) {
	for dir, makes := range map[string]*regexp.Regexp{
		".":          regexp.MustCompile(`(?m)(^|[^.\w])New\(|\.Audit\.Report|[^_], err :?= Resume\(`),
		"../natslog": regexp.MustCompile(`audit\.(New|Resume)\(`),
	} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(err, files)
		}
		for _, f := range files {
			if bareAudits[filepath.Base(f)] != "" {
				continue
			}
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if at := makes.FindString(string(text)); at != "" {
				t.Errorf("%s makes an audit by %s: use newAudit or newLogAudit", f, at)
			}
		}
	}
}

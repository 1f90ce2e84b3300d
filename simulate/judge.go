package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/simulate/plan"
)

// verdict is what a run shows. It has failed if something is wrong.
type verdict struct {
	wrong   []string
	excused []string // what would be wrong if no fault explained it
	unsure  []string // what nobody could decide
}

// judge asks three judges: what the locks protect, the audit of the event log, and a checker of the clients' histories.
func judge(o *outcome) verdict {
	var v verdict
	if o.crash != nil {
		v.wrong = append(v.wrong, fmt.Sprintf("the run did not come to its end: %v", o.crash))
	}
	for _, b := range o.breaches {
		text := fmt.Sprintf("%v: %s of %s: %s", b.At, b.What, b.Lock, b.Text)
		if f, ok := excuse(o.plan, b); ok {
			v.excused = append(v.excused, fmt.Sprintf("%s (%v)", text, f))
		} else {
			v.wrong = append(v.wrong, text)
		}
	}
	v.judgeDenials(o)
	v.judgeWaits(o)
	v.judgeLog(o)
	v.judgeHistories(o)
	return v
}

// excuses reports whether a lock may have two holders because of a fault. A store cannot help a clock that is set
// forward and ends leases, and two servers that both grant. A store that has forgotten its locks excuses nothing: it
// waits for their holders.
func excuses(f plan.Fault) bool { return f.Kind == plan.Split || f.Kind == plan.Step && f.Lag > 0 }

// forgets reports whether a store forgets locks at a fault. That excuses what outsiders have part in: they take what
// looks free, and do not come back with what they had.
func forgets(f plan.Fault) bool {
	return f.Kind == plan.Flush || f.Kind == plan.Restart || f.Kind == plan.Failover
}

// excuse returns the fault that explains a breach.
func excuse(p plan.Plan, b plan.Breach) (plan.Fault, bool) {
	if b.What != plan.Overlap && b.What != plan.Fell {
		return plan.Fault{}, false
	}
	i := slices.IndexFunc(p.Faults, func(f plan.Fault) bool {
		return (excuses(f) || b.Outsider && forgets(f)) && f.At <= b.At && f.End() >= b.From-memory(p)
	})
	if i < 0 {
		return plan.Fault{}, false
	}
	return p.Faults[i], true
}

// memory is how long an agent may go on with a tenure that the store forgot: until the tenure would have been renewed.
func memory(p plan.Plan) time.Duration { return max(p.Lease, shortTenure) + time.Second }

// shortTenure is the least lease of a lock that an agent takes again and again.
const shortTenure = 2 * time.Second

// breaches are what the audit calls otherwise.
var breaches = map[audit.ViolationKind]string{
	audit.Overlap: plan.Overlap, audit.TooManyPermits: plan.Overlap, audit.TokenFell: plan.Fell,
	audit.TokenRepeated: plan.Fell,
}

// judgeLog audits the event log. A reset explains an overlap only if two servers granted.
func (v *verdict) judgeLog(o *outcome) {
	a := audit.New()
	a.Tail = plan.Heartbeat
	for _, r := range o.records {
		a.Add(r)
	}
	report := a.Report()
	unnoticed := slices.ContainsFunc(
		o.plan.Faults, func(f plan.Fault) bool { return f.Kind == plan.Step && !o.noticed(f) },
	)
	for _, found := range report.Violations.First {
		text := fmt.Sprintf("audit: %v", found)
		b := plan.Breach{What: breaches[found.Kind], From: found.First.From.Sub(epoch), At: found.Second.From.Sub(epoch)}
		if f, ok := excuse(o.plan, b); ok {
			v.excused = append(v.excused, fmt.Sprintf("%s (%v)", text, f))
		} else if unnoticed {
			v.unsure = append(v.unsure, "nobody noticed that a clock was set, and so the audit may be wrong: "+text)
		} else {
			v.wrong = append(v.wrong, text)
		}
	}
	split := slices.ContainsFunc(o.plan.Faults, func(f plan.Fault) bool { return f.Kind == plan.Split })
	for _, found := range report.Explained.First {
		text := fmt.Sprintf("audit: %v", found)
		if found.Reset != nil && found.Reset.From != found.Reset.To && !split {
			v.wrong = append(v.wrong, text)
		} else {
			v.excused = append(v.excused, text)
		}
	}
	if report.Verdict == audit.Incomplete {
		v.unsure = append(v.unsure, fmt.Sprintf("audit: %d holds are not proven", report.Unproven.Count))
		for _, reason := range report.Unproven.Reasons {
			v.unsure = append(v.unsure, fmt.Sprintf("audit: %d of them: %s", reason.Count, reason.Why))
		}
	}
}

// noticed reports whether an agent has told of a step of the clock.
func (o *outcome) noticed(step plan.Fault) bool {
	return slices.ContainsFunc(o.records, func(r events.Record) bool {
		return r.Kind == lockagent.EventStoreReset && r.Reset.From == r.Reset.To && r.Time.Sub(epoch) >= step.At
	})
}

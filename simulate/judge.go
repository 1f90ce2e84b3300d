package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockagent/lockagent"
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
// With strict, a store that forgot excuses nothing.
func judge(o *outcome, strict bool) verdict {
	var v verdict
	if o.crash != nil {
		v.wrong = append(v.wrong, fmt.Sprintf("the run did not come to its end: %v", o.crash))
	}
	for _, b := range o.breaches {
		text := fmt.Sprintf("%v: %s of %s: %s", b.At, b.What, b.Lock, b.Text)
		if f, ok := excuse(o.plan, b, strict); ok {
			v.excused = append(v.excused, fmt.Sprintf("%s (%v)", text, f))
		} else {
			v.wrong = append(v.wrong, text)
		}
	}
	v.judgeLog(o, strict)
	v.judgeHistories(o, strict)
	return v
}

// excuses reports whether a lock may have two holders because of a fault. A store cannot help a clock that is set
// forward and ends leases, and two servers that both grant.
func excuses(f plan.Fault, strict bool) bool {
	return f.Forgets() && !strict || f.Kind == plan.Split || f.Kind == plan.Step && f.Lag > 0
}

// excuse returns the fault that explains a breach.
func excuse(p plan.Plan, b plan.Breach, strict bool) (plan.Fault, bool) {
	if b.What != plan.Overlap && b.What != plan.Fell {
		return plan.Fault{}, false
	}
	i := slices.IndexFunc(p.Faults, func(f plan.Fault) bool {
		return excuses(f, strict) && f.At <= b.At && f.End() >= b.From-memory(p)
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

// judgeLog audits the event log.
func (v *verdict) judgeLog(o *outcome, strict bool) {
	a := audit.New()
	a.Tail = plan.Heartbeat
	for _, r := range o.records {
		a.Add(r)
	}
	report := a.Report()
	for _, found := range report.Violations.First {
		text := fmt.Sprintf("audit: %v", found)
		if doubtful(found) {
			v.unsure = append(v.unsure, text)
		} else {
			v.wrong = append(v.wrong, text)
		}
	}
	for _, found := range report.Explained.First {
		text := fmt.Sprintf("audit: %v", found)
		if strict && found.Reset != nil && found.Reset.From != found.Reset.To {
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

// doubtful reports whether the audit may be wrong in calling something a violation. In two cases it is, if an answer
// came late:
//
//   - The answer that denies a hold bounds its end. If it came late, the bound may be behind the end of the lease.
//   - The answer to an acquire that was repeated tells a later time than that of its token. Of two holders of permits
//     the second may have the smaller token then.
func doubtful(v audit.Violation) bool {
	switch v.Kind {
	case audit.Outlived:
		return v.First.Reason == lockagent.LostDenied
	case audit.TokenFell:
		return v.First.HasPermits()
	}
	return false
}

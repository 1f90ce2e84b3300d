package lockagent

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestParseAgentID(t *testing.T) {
	for _, good := range []string{string(NewAgentID()), "a", "host-1_example", strings.Repeat("x", 64)} {
		if id, err := ParseAgentID(good); err != nil || string(id) != good {
			t.Errorf("ParseAgentID(%q) = %q, %v; want it as it is", good, id, err)
		}
	}
	for _, bad := range []string{"", strings.Repeat("x", 65), "a:b", "{a}", "a b", "a.b", "a/b", "é", "a\xff", "a\n"} {
		if id, err := ParseAgentID(bad); !errors.Is(err, ErrBadOption) || id != "" {
			t.Errorf("ParseAgentID(%q) = %q, %v; want ErrBadOption", bad, id, err)
		}
	}
}

func TestChecksOfStoreRequests(t *testing.T) {
	tenure := Tenure{Agent: NewAgentID(), Number: 1}
	good := AcquireRequest{Name: "n", Tenure: tenure, Lease: time.Second}
	change := func(f func(*AcquireRequest)) AcquireRequest {
		r := good
		f(&r)
		return r
	}
	for what, test := range map[string]struct {
		req  AcquireRequest
		want error
	}{
		"as it should be":    {good, nil},
		"the last token":     {change(func(r *AcquireRequest) { r.Floor = MaxToken - 1 }), nil},
		"the last tenure":    {change(func(r *AcquireRequest) { r.Tenure.Number = MaxTenure }), nil},
		"no name":            {change(func(r *AcquireRequest) { r.Name = "" }), ErrBadName},
		"no agent":           {change(func(r *AcquireRequest) { r.Tenure.Agent = "" }), ErrBadOption},
		"no number":          {change(func(r *AcquireRequest) { r.Tenure.Number = 0 }), ErrBadOption},
		"too great a number": {change(func(r *AcquireRequest) { r.Tenure.Number = MaxTenure + 1 }), ErrBadOption},
		"no lease":           {change(func(r *AcquireRequest) { r.Lease = 0 }), ErrBadOption},
		"too long a lease":   {change(func(r *AcquireRequest) { r.Lease = MaxLease + 1 }), ErrBadOption},
		"nothing above":      {change(func(r *AcquireRequest) { r.Floor = MaxToken }), ErrBadOption},
	} {
		t.Run(what, func(t *testing.T) {
			if err := test.req.Check(); !errors.Is(err, test.want) {
				t.Errorf("AcquireRequest.Check() = %v, want %v", err, test.want)
			}
		})
	}
	if err := (RenewRequest{Name: "n", Tenure: tenure}).Check(); !errors.Is(err, ErrBadOption) {
		t.Errorf("RenewRequest without a lease: Check() = %v, want ErrBadOption", err)
	}
	if err := (RenewRequest{Name: "n", Tenure: tenure, Lease: time.Second}).Check(); err != nil {
		t.Errorf("RenewRequest: Check() = %v", err)
	}
	if err := (ReleaseRequest{Name: "n"}).Check(); !errors.Is(err, ErrBadOption) {
		t.Errorf("ReleaseRequest without a tenure: Check() = %v, want ErrBadOption", err)
	}
	if err := (BreakRequest{Name: "n", Operator: strings.Repeat("\xff", MaxNameLen)}).Check(); err != nil {
		t.Errorf("BreakRequest: Check() = %v", err)
	}
	if err := (BreakRequest{Name: "x{"}).Check(); !errors.Is(err, ErrBadName) {
		t.Errorf("BreakRequest with a bad name: Check() = %v, want ErrBadName", err)
	}
	if err := (BreakRequest{
		Name: "n", Operator: strings.Repeat("o", MaxNameLen+1),
	}).Check(); !errors.Is(err, ErrBadOption) {
		t.Errorf("BreakRequest with a long operator: Check() = %v, want ErrBadOption", err)
	}
}

func TestCheckPermits(t *testing.T) {
	for _, c := range []struct {
		kind LockKind
		most int
	}{{PlainLock, 1}, {Semaphore, MaxPermits}, {Permits, MaxTaken}} {
		for _, good := range []int{0, 1, c.most} {
			if err := CheckPermits(c.kind, good); err != nil {
				t.Errorf("CheckPermits(%s, %d) = %v", c.kind, good, err)
			}
		}
		for _, bad := range []int{-1, c.most + 1} {
			if err := CheckPermits(c.kind, bad); !errors.Is(err, ErrBadOption) {
				t.Errorf("CheckPermits(%s, %d) = %v, want ErrBadOption", c.kind, bad, err)
			}
		}
	}
	const want = `lockagent: bad number of permits: 1001 is not between 1 and 1000, ` +
		`the most that a request of the kind "permits" can be for`
	if got := CheckPermits(Permits, MaxTaken+1).Error(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestTraceOfARelease(t *testing.T) {
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	req := ReleaseRequest{Name: "n", Tenure: Tenure{Agent: NewAgentID(), Number: 1}}
	for _, trace := range []string{"", good} {
		if req.Trace = trace; req.Check() != nil {
			t.Errorf("trace %q: Check() = %v", trace, req.Check())
		}
	}
	for _, trace := range []string{
		"-", good[1:], good + "0", "01" + good[2:], strings.ToUpper(good), strings.Replace(good, "4bf9", "4 f9", 1),
		strings.ReplaceAll(good, "-", "0"),
	} {
		if req.Trace = trace; !errors.Is(req.Check(), ErrBadOption) {
			t.Errorf("trace %q: Check() = %v, want ErrBadOption", trace, req.Check())
		}
	}
}

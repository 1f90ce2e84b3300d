package client

import (
	"testing"
	"time"

	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// A claim is shown with the process that works under it. One that is detached is shown with the process that it ends
// with: whoever made it may have ended.
func TestTheProcessOfAClaim(t *testing.T) {
	for want, c := range map[string]*lockagentv1.Claim{
		"sh (pid 7, ann)": {},
		"sh (pid 8, ann)": {Pids: []int32{8, 9}},
		"sh (pid 9, ann)": {Pids: []int32{8, 9}, Detached: true, ForPid: 9},
		"sh (ann)":        {Detached: true},
	} {
		c.Client = &lockagentv1.Client{Pid: 7, Program: "sh", User: "ann"}
		l := ViewOf(&lockagentv1.Lock{Held: 1, Holders: []*lockagentv1.Claim{c}})
		if got := l.Holder(); got != want {
			t.Errorf("%v: %s, want %s", c, got, want)
		}
	}
}

// What is left of a claim is not what is left of its lease, if the claim was asked for with an end.
func TestWhatIsLeftOfAClaim(t *testing.T) {
	now := time.Now()
	for want, c := range map[string]ClaimView{
		"":                           {},
		"26.9s":                      {LeftMS: 26_900},
		"1h0m0s":                     {LeftMS: 26_900, Expires: now.Add(time.Hour)},
		"until 4711 ends":            {LeftMS: 26_900, ForPID: 4711},
		"1h0m0s, or until 4711 ends": {LeftMS: 26_900, Expires: now.Add(time.Hour), ForPID: 4711},
	} {
		if got := c.Left(now); got != want {
			t.Errorf("%+v: %q, want %q", c, got, want)
		}
	}
}

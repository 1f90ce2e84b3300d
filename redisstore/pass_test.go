package redisstore

import (
	"testing"

	"github.com/lockagent/lockagent"
)

func TestParsePass(t *testing.T) {
	name, pass, err := parsePass(string(one) + ":7 1000 5 900 800.ab a lock")
	want := lockagent.Pass{Tenure: lockagent.Tenure{Agent: one, Number: 7}, Lease: lockagent.PassLease, Token: 1000, Tokens: 5, At: 900, Incarnation: "800.ab"}
	if err != nil || name != "a lock" || *pass != want {
		t.Errorf("%q, %+v, %v; want %+v", name, pass, err, want)
	}
	for _, message := range []string{"", "0", "a:1 1 1 1 i", "a 1 1 1 i n", "a:1 x 1 1 i n", "a:1 1 x 1 i n", "a:1 1 1 x i n"} {
		if name, pass, err := parsePass(message); err == nil {
			t.Errorf("%q is a pass of %q, %+v", message, name, pass)
		}
	}
}

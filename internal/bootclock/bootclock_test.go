package bootclock

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockagent/lockagent/internal/machinetest"
)

func TestNowIsTheTimeSinceTheMachineBooted(t *testing.T) {
	machinetest.NeedsLinux(t)
	before := Now()
	told, err := os.ReadFile("/proc/uptime")
	if err != nil {
		t.Fatal(err)
	}
	after := Now()
	seconds, err := strconv.ParseFloat(strings.Fields(string(told))[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	up := time.Duration(seconds * float64(time.Second))
	const coarse = 10 * time.Millisecond // the file has hundredths of seconds
	if up < before-coarse || up > after+coarse {
		t.Errorf("the system says %v, and the clock said %v and then %v", up, before, after)
	}
	if s := Suspended(); s < -time.Second || s > after {
		t.Errorf("suspended for %v of %v", s, after)
	}
}

func TestIDNamesTheBoot(t *testing.T) {
	machinetest.NeedsLinux(t)
	if id := ID(); len(id) != 36 || strings.TrimSpace(id) != id {
		t.Errorf("the id of the boot is %q", id)
	}
}

// Only two processes that are known to read the same clock can compare its instants.
func TestForeignClocks(t *testing.T) {
	for _, test := range []struct{ own, other, says string }{
		{"a", "a", ""},
		{"a/time:[7]", "a/time:[7]", ""},
		{"", "", "this process cannot read"},
		{"", "a", "this process cannot read"},
		{"a", "", "the other process cannot read"},
		{"a", "b", "another machine"},
		{"a/time:[7]", "b/time:[7]", "another machine"},
		{"a", "a/time:[7]", "another time namespace"},
		{"a/time:[8]", "a", "another time namespace"},
		{"a/time:[8]", "a/time:[7]", "another time namespace"},
	} {
		err := foreign(test.own, test.other)
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%q and %q: %v, want %q", test.own, test.other, err, test.says)
		}
	}
}

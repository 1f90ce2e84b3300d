package bootclock

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestNowIsTheTimeSinceTheMachineBooted(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells")
	}
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
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells")
	}
	if id := ID(); len(id) != 36 || strings.TrimSpace(id) != id {
		t.Errorf("the id of the boot is %q", id)
	}
}

package lockagent_test

import (
	"testing"
	"time"

	"github.com/lockagent/lockagent"
)

func TestTenureString(t *testing.T) {
	tenure := lockagent.Tenure{Agent: "f47ac10b-58cc-4372-a567-0e02b2c3d479", Number: lockagent.MaxTenure}
	if got, want := tenure.String(), "f47ac10b-58cc-4372-a567-0e02b2c3d479:9007199254740991"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestParseTenure(t *testing.T) {
	good := lockagent.Tenure{Agent: "web-1", Number: 42}
	if got, ok := lockagent.ParseTenure(good.String()); !ok || got != good {
		t.Errorf("ParseTenure(%q) = %v, %v", good, got, ok)
	}
	for _, bad := range []string{
		"", "web-1", "web-1:", ":42", "web-1:0", "web-1:042", "web-1:+42", "web-1:42:write", "web 1:42",
		"web-1:9007199254740992", "web-1:-3",
	} {
		if got, ok := lockagent.ParseTenure(bad); ok {
			t.Errorf("ParseTenure(%q) = %v, want none", bad, got)
		}
	}
}

func TestStoreTime(t *testing.T) {
	const start lockagent.StoreTime = 1_700_000_000_000_000
	for d, want := range map[time.Duration]lockagent.StoreTime{
		0:                       start,
		time.Second:             start + 1_000_000,
		-time.Second:            start - 1_000_000,
		time.Microsecond:        start + 1,
		1999 * time.Nanosecond:  start + 1,
		999 * time.Nanosecond:   start,
		-1999 * time.Nanosecond: start - 1,
	} {
		if got := start.Add(d); got != want {
			t.Errorf("Add(%v) = %d, want %d", d, got, want)
		}
		if got := start.Add(d).Sub(start); got != d.Truncate(time.Microsecond) {
			t.Errorf("Add(%v).Sub = %v", d, got)
		}
	}
}

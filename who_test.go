package lockagent_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lockagent/lockagent"
)

func TestWhoIsShort(t *testing.T) {
	long := lockagent.Process{
		Host: strings.Repeat("h", 1000), Program: strings.Repeat("p", 200), Version: strings.Repeat("v", 201), PID: -1,
		User: "\xff" + strings.Repeat("u", 199), Command: strings.Repeat("ä", 100) + "ö",
	}
	got := long.Who().Process()
	want := lockagent.Process{
		Host: strings.Repeat("h", 200), Program: strings.Repeat("p", 200), Version: strings.Repeat("v", 200),
		User: "?" + strings.Repeat("u", 199), Command: strings.Repeat("ä", 100),
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for cut := range 8 { // whatever stands at the limit
		text := strings.Repeat("a", 193+cut) + "€€€\xe2\x82"
		got := lockagent.Process{Command: text}.Who().Process().Command
		if len(got) > lockagent.MaxProcessText || !utf8.ValidString(got) || len(got) < lockagent.MaxProcessText-utf8.UTFMax {
			t.Errorf("%d bytes: %q", len(got), got)
		}
	}
	if got := (lockagent.Process{User: "a\xffb"}).Who().Process().User; got != "a\uFFFDb" {
		t.Errorf("got %q", got)
	}
}

func TestWhoIsAValue(t *testing.T) {
	p := lockagent.Process{Host: "db3", Program: "backup.sh", PID: 4711, User: "root", Command: "backup.sh --full"}
	if first, second := p.Who(), p.Who(); first != second || p.Who().Process() != p || p.Who().IsZero() {
		t.Errorf("got %+v", p.Who().Process())
	}
	other := p
	other.PID++
	if p.Who() == other.Who() {
		t.Error("two processes are one")
	}
	var zero lockagent.Who
	if (lockagent.Process{}).Who() != zero || !zero.IsZero() || zero.Process() != (lockagent.Process{}) ||
		zero.String() != "" {
		t.Errorf("the zero Who says %q", zero)
	}
}

func TestWhoText(t *testing.T) {
	for want, p := range map[string]lockagent.Process{
		"backup.sh (pid 4711, root@db3)": {
			Program: "backup.sh", PID: 4711, User: "root", Host: "db3", Command: "backup.sh --password=x", Version: "v1",
		},
		"backup.sh (pid 4711, db3)":                {Program: "backup.sh", PID: 4711, Host: "db3"},
		"backup.sh (pid 4711, root)":               {Program: "backup.sh", PID: 4711, User: "root"},
		"backup.sh (root@db3)":                     {Program: "backup.sh", User: "root", Host: "db3"},
		"backup.sh":                                {Program: "backup.sh"},
		"pid 4711, root@db3":                       {PID: 4711, User: "root", Host: "db3"},
		"root@db3":                                 {User: "root", Host: "db3"},
		`"a\x1b[31mb" (pid 1, "r\nx"@"\u202edb3")`: {Program: "a\x1b[31mb", PID: 1, User: "r\nx", Host: "\u202edb3"},
		`"true (pid 1, root@db3)" (pid 2, nobody@db3)`: {
			Program: "true (pid 1, root@db3)", PID: 2, User: "nobody", Host: "db3",
		},
		`Müllabfuhr mit Leerzeichen (pid 3, äda@straße)`: {
			Program: "Müllabfuhr mit Leerzeichen", PID: 3, User: "äda", Host: "straße",
		},
	} {
		if got := p.Who().String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

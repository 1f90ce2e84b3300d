package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// reload returns the changes as texts.
func reload(t *testing.T, c *Config) (*Config, []string) {
	t.Helper()
	next, changes, err := c.Reload()
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, c := range changes {
		texts = append(texts, fmt.Sprintf("%s: %s -> %s, restart %v", c.Setting.Key, c.Old, c.New, c.Restart))
	}
	return next, texts
}

func TestReload(t *testing.T) {
	h := newHost(t)
	h.Flags["drain-timeout"] = "7s"
	h.write("log: {level: warn, format: json}\ndrain: {timeout: 1s}\n")
	c := h.load()
	if _, changes := reload(t, c); changes != nil {
		t.Errorf("nothing has changed, and it says %q", changes)
	}
	h.write("lease: {duration: 20s}\nlog:\n  level: error\ndrain: {timeout: 2s}\nrules: [{match: a, allow: [look]}]")
	for range 2 { // a restart is still needed the next time
		next, changes := reload(t, c)
		want := []string{
			"lease.duration: 30s -> 20s, restart true",
			`rules:  -> {match: "a", allow: [look]}, restart false`,
			"log.level: warn -> error, restart false",
			"log.format: json -> text, restart true",
		}
		if !slices.Equal(changes, want) {
			t.Errorf("the changes are\n\t%s\nwant\n\t%s", strings.Join(changes, "\n\t"), strings.Join(want, "\n\t"))
		}
		// What counts is what runs.
		h.expect(next, "lease.duration", "30s", "default")
		h.expect(next, "log.level", "error", "FILE:3")
		h.expect(next, "log.format", "json", "FILE:1")
		h.expect(next, "drain.timeout", "7s", "--drain-timeout")
		h.expect(next, "rules.1", `{match: "a", allow: [look]}`, "FILE:5")
		h.expect(c, "log.level", "warn", "FILE:1")
		if next.Settings.Lease.Duration != 30*time.Second {
			t.Errorf("the lease is %v", next.Settings.Lease.Duration)
		}
	}
	next, _ := reload(t, c)
	if _, changes := reload(t, next); !slices.Equal(changes, []string{
		"lease.duration: 30s -> 20s, restart true", "log.format: json -> text, restart true",
	}) {
		t.Errorf("after a reload, these changes are left: %q", changes)
	}
}

func TestAReloadWithAnErrorChangesNothing(t *testing.T) {
	h := newHost(t)
	h.write("log: {level: warn}\n")
	c := h.load()
	h.write("log: {level: error}\nredsi: {}\n")
	next, changes, err := c.Reload()
	if err == nil || next != nil || changes != nil {
		t.Errorf("got %v, %v, %v", next, changes, err)
	}
	h.expect(c, "log.level", "warn", "FILE:1")
}

func TestAPasswordThatChangesIsAChange(t *testing.T) {
	h := newHost(t)
	h.Environ = append(h.Environ, "LOCKAGENT_REDIS=redis://:hunter2@a")
	c := h.load()
	c.in.Environ = append(c.in.Environ, "LOCKAGENT_REDIS=redis://:hunter3@a")
	want := []string{"redis.url: redis://:xxxxx@a -> redis://:xxxxx@a, restart true"}
	if _, changes := reload(t, c); !slices.Equal(changes, want) {
		t.Errorf("got %q", changes)
	}
}

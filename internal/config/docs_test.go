package config

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// newGolden is a variable of the environment. If it is set, the documentation is written anew.
const newGolden = "LOCKAGENT_NEW_GOLDEN"

const documentation = "../../docs/configuration.md"

// describeAll is the table of settings as the documentation has it.
func describeAll() string {
	var b strings.Builder
	section := "none"
	for _, s := range table {
		if s.Key == rulesKey {
			continue // they have a section of their own
		}
		of, _ := s.split()
		if of == "" {
			of = "host"
		}
		if of != section {
			fmt.Fprintf(&b, "\n### %s\n\n", of)
			if help := sectionHelp(of); help != "" {
				b.WriteString(help + "\n\n")
			}
			b.WriteString("| setting | flag | type and default | |\n|---|---|---|---|\n")
		}
		section = of
		fmt.Fprintf(&b, "| `%s` | `--%s` | %s | %s |\n", s.Key, s.Flag, s.values(), s.Help)
	}
	return b.String()
}

// values is the column about the values of a setting.
func (s *Setting) values() string {
	text := s.Type()
	if limits := s.Range(); limits != "" {
		text += ", " + limits
	}
	if zero := s.Zero(); zero != "" {
		text += ", where 0 " + zero
	}
	switch {
	case s.Default != "":
		text += "<br>default `" + s.Default + "`"
	case s.DefaultText != "":
		text += "<br>default: " + s.DefaultText
	}
	if !s.Live {
		text += "<br>*restart*"
	}
	return text
}

func TestDocumentation(t *testing.T) {
	text, err := os.ReadFile(documentation)
	if err != nil {
		t.Fatal(err)
	}
	head, _, found := strings.Cut(string(text), "-->\n")
	if !found {
		t.Fatal("the documentation has no place for the table")
	}
	want := head + "-->\n" + describeAll()
	if os.Getenv(newGolden) != "" {
		if err := os.WriteFile(documentation, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(text) != want {
		t.Errorf("%s is not that of the table; run this test with %s=1", documentation, newGolden)
	}
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(head, -1)
	if len(examples) == 0 {
		t.Error("the documentation has no example")
	}
	for _, example := range examples {
		if err := parsed(example[1]); err != nil {
			t.Errorf("an example of the documentation is wrong: %v", err)
		}
	}
	// What it says of errors is what Load says.
	h := newHost(t)
	h.Flags["log-level"] = "loud"
	h.write("redis:\n  ulr: redis://a\n\nlease:\n  duration: 5\n")
	for _, problem := range h.problems() {
		if problem = strings.ReplaceAll(problem, "FILE", systemFile); !strings.Contains(head, "\n  "+problem+"\n") {
			t.Errorf("the documentation does not show the problem %s", problem)
		}
	}
}

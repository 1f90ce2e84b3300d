package config

import (
	"reflect"
	"regexp"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	keys, flags, fields := make(map[string]bool), make(map[string]bool), make(map[uintptr]string)
	var settings Settings
	lastSection := ""
	done := make(map[string]bool)
	for _, s := range table {
		section, name := s.split()
		switch {
		case keys[s.Key]:
			t.Errorf("%s is there twice", s.Key)
		case s.Flag != "" && flags[s.Flag] || s.Flag == FileFlag:
			t.Errorf("--%s is there twice", s.Flag)
		case !regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`).MatchString(name):
			t.Errorf("%s is no good name", s.Key)
		case section != "" && !isSection(section):
			t.Errorf("%s is in a section without a help", s.Key)
		case section != lastSection && done[section] && section != "":
			t.Errorf("%s does not stand with its section", s.Key)
		case s.Flag == "" && s.Key != rulesKey:
			t.Errorf("%s has no flag", s.Key)
		case s.Flag != "" && strings.Count(s.Usage, "`") != 2 && s.kind != boolean{}:
			t.Errorf("the usage of --%s has no word for its value", s.Flag)
		case !strings.HasSuffix(s.Help, ".") || s.Example == "":
			t.Errorf("%s has no help, or no example", s.Key)
		case s.Default != "" && s.DefaultText != "":
			t.Errorf("%s has two defaults", s.Key)
		case s.Default == s.Example:
			t.Errorf("the example of %s is its default", s.Key)
		}
		keys[s.Key], flags[s.Flag], done[section], lastSection = true, true, true, section
		field := reflect.ValueOf(s.field(&settings))
		if other := fields[field.Pointer()]; other != "" && field.Elem().Kind() != reflect.Struct {
			t.Errorf("%s and %s have one field", s.Key, other)
		}
		fields[field.Pointer()] = s.Key
		k, ok := s.kind.(scalar)
		if !ok {
			continue
		}
		for _, text := range []string{s.Default, strings.ReplaceAll(s.Example, "${CREDENTIALS_DIRECTORY}", "/run")} {
			if text == "" {
				continue
			}
			if err := k.set(field.Interface(), text); err != nil {
				t.Errorf("%s: the default or the example %v", s.Key, err)
			}
			if got := k.text(field.Interface()); got != text {
				t.Errorf("%s: %s is shown as %s", s.Key, text, got)
			}
		}
	}
	if n := leaves(reflect.TypeFor[Settings]()); n != len(table) {
		t.Errorf("there are %d settings, and %d fields for them", len(table), n)
	}
}

// leaves counts the fields that are no structures.
func leaves(of reflect.Type) (n int) {
	if of.Kind() != reflect.Struct {
		return 1
	}
	for i := range of.NumField() {
		n += leaves(of.Field(i).Type)
	}
	return n
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]Size{
		"0B": 0, "1B": 1, "1kB": 1000, "1KiB": 1024, "64MiB": 64 << 20, "3TB": 3e12, "1TiB": 1 << 40, "1025B": 1025,
		"8388607TiB": 8388607 << 40,
	} {
		got, err := parseSize(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s is %d, %v: %v", text, got, got, err)
		}
	}
	for _, text := range []string{
		"", "B", "1", "-1B", "1.5MiB", "1 B", "1mB", "9223372036854775808B", "8388608TiB", "+1B", "1_0B",
	} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}

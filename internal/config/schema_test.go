package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

// compile returns the schema for use. It is valid by the schema of schemas, or there is an error.
func compiled(t testing.TB) *jsonschema.Schema {
	t.Helper()
	text, err := json.Marshal(Schema())
	if err != nil {
		t.Fatal(err)
	}
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("config.json", schema); err != nil {
		t.Fatal(err)
	}
	return c.MustCompile("config.json")
}

// valid returns what the schema has against a file.
func valid(schema *jsonschema.Schema, text string) error {
	var of any
	if err := yaml.Unmarshal([]byte(text), &of); err != nil {
		return err
	}
	data, err := json.Marshal(of)
	if err != nil {
		return err
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return err
	}
	return schema.Validate(instance)
}

// parsed returns what the parser has against a file, other than settings that exclude each other.
func parsed(text string) error {
	l := &loading{
		Config: &Config{origins: make(map[string]Origin)},
		env:    map[string]string{"CREDENTIALS_DIRECTORY": "/run/credentials"},
	}
	l.parse(Origin{Kind: FromFile, Name: "c.yaml"}, []byte(text))
	return l.problems.err()
}

func TestSchemaAndParserAgree(t *testing.T) {
	schema := compiled(t)
	both := func(text string, good bool) {
		t.Helper()
		if err := parsed(text); (err == nil) != good {
			t.Errorf("%s: the parser says %v", text, err)
		}
		if err := valid(schema, text); (err == nil) != good {
			t.Errorf("%s: the schema says %v", text, err)
		}
	}
	for _, s := range table {
		section, name := s.split()
		write := func(value string) string {
			if section != "" {
				return fmt.Sprintf("%s:\n  %s: %s\n", section, name, value)
			}
			return fmt.Sprintf("%s: %s\n", name, value)
		}
		if s.Default != "" {
			both(write(s.yaml(s.Default)), true)
		}
		both(write(s.yaml(s.Example)), true)
		for _, wrong := range []string{"''", "null", "{}", "[1]", "1.5", "-1", "' '", "\"a\\nb\"", "[a]"} {
			both(write(wrong), false)
		}
		if _, ok := s.kind.(boolean); !ok {
			both(write("true"), false)
		}
		if _, ok := s.kind.(number); !ok {
			both(write("5"), false)
		}
	}
	for text, good := range map[string]bool{
		"{}": true, "null": true, "{redis: null}": true, "[]": false, "x": false, "{redis: []}": false, "{redis: x}": false,
		"{redsi: {}}": false, "{redis: {ulr: x}}": false,
		"{rules: []}": true, "{rules: [{match: a, allow: []}]}": true,
		"{rules: [{match: a, allow: [look], users: [5, a], groups: [x]}]}": true,
		"{rules: [{match: a}]}": false, "{rules: [{allow: []}]}": false, "{rules: [{match: a, allow: [brake]}]}": false,
		"{rules: [{match: a, allow: [], users: [-1]}]}": false, "{rules: [{match: a, allow: [], users: ['']}]}": false,
		"{rules: [{match: a, allow: [], users: [4294967296]}]}": false, "{rules: [{match: a, allow: [], users: []}]}": false,
		"{rules: [{match: a, allow: [], user: [x]}]}": false, "{rules: [{match: '', allow: []}]}": false,
	} {
		both(text, good)
	}
}

// file draws a file that looks like one, and has mistakes.
func file(t *rapid.T) string {
	words := []string{
		"''", "null", "5", "5s", "-1", "true", "x", "'5'", "[a]", "{}", "/p", "64MiB", "64M", "127.0.0.1:70", "0660",
		"'0660'", "keep", "redis://a", "\"a b\"",
	}
	for _, s := range table {
		words = append(words, s.yaml(s.Example))
	}
	word := rapid.SampledFrom(words)
	root := make(map[string][]string)
	for range rapid.IntRange(0, 8).Draw(t, "settings") {
		s := rapid.SampledFrom(table).Draw(t, "setting")
		section, name := s.split()
		if rapid.IntRange(0, 9).Draw(t, "misspelt") == 0 {
			name += "x"
		}
		value := s.yaml(s.Example)
		if rapid.Bool().Draw(t, "odd") {
			value = word.Draw(t, "value")
		}
		root[section] = append(root[section], name+": "+value)
	}
	var b strings.Builder
	for section, lines := range root {
		if section != "" {
			b.WriteString(section + ":\n")
		}
		seen := make(map[string]bool)
		for _, line := range lines {
			key, _, _ := strings.Cut(line, ":")
			if section != "" {
				line = "  " + line
			}
			if !seen[key] {
				b.WriteString(line + "\n")
			}
			seen[key] = true
		}
	}
	return b.String()
}

func TestWhatTheParserTakesIsValid(t *testing.T) {
	schema := compiled(t)
	rapid.Check(t, func(t *rapid.T) {
		text := file(t)
		if parsed(text) == nil {
			if err := valid(schema, text); err != nil {
				t.Fatalf("the parser takes this, and the schema says %v:\n%s", err, text)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add(DefaultFile())
	f.Add("rules: [{match: a, allow: [look]}]\nlog: {level: debug}")
	f.Add("limits: {claims: 0x10}\nredis: &a {url: redis://a}\nnats: *a")
	f.Add("lease:\n  duration: 5\n---\n")
	f.Add("? [a]\n: <<: b\n!!str c: !!int '5'")
	schema := compiled(f)
	f.Fuzz(func(t *testing.T, text string) {
		err := parsed(text)
		if err == nil {
			if err := valid(schema, text); err != nil && !strings.Contains(err.Error(), "json: unsupported") {
				t.Errorf("the parser takes this, and the schema says %v:\n%s", err, text)
			}
			return
		}
		for line := range strings.SplitSeq(err.Error(), "\n") {
			if !strings.HasPrefix(line, "c.yaml") {
				t.Errorf("%q has the problem %q without a place", text, line)
			}
		}
	})
}

// example is a setting in the default file that is a comment.
var example = regexp.MustCompile(`(?m)^( *)#([a-z_]+): `)

func TestDefaultFile(t *testing.T) {
	text := DefaultFile()
	h := newHost(t)
	plain := h.load()
	h.write(text)
	c := h.load()
	for i, v := range c.Values() {
		if v.Text != plain.Values()[i].Text {
			t.Errorf("%s is %q by the file, and %q without it", v.Key, v.Text, plain.Values()[i].Text)
		}
		if fromFile := v.Origin.Kind == FromFile; fromFile != (v.Setting.Default != "") {
			t.Errorf("%s is from %v", v.Key, v.Origin)
		}
	}
	schema := compiled(t)
	if err := valid(schema, text); err != nil {
		t.Errorf("by the schema: %v", err)
	}
	// With all examples in place it is valid, but for those that exclude each other.
	full := example.ReplaceAllString(text, "$1$2: ")
	if n := len(example.FindAllString(text, -1)) + strings.Count(text, "default"); n < 20 {
		t.Errorf("there are %d examples only", n)
	}
	if err := parsed(full); err != nil {
		t.Error(err)
	}
	if err := valid(schema, full); err != nil {
		t.Errorf("by the schema: %v", err)
	}
	for line := range strings.Lines(text) {
		if len(line) > width+60 || strings.TrimRight(line, " \n") != strings.TrimSuffix(line, "\n") {
			t.Errorf("the line %q is too long, or ends in spaces", line)
		}
	}
}

func TestSecrets(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	password := write("p", "hun/ter2\n")
	windows := write("w", "hunter 3\r\n")
	empty := write("e", "\n")
	large := write("l", strings.Repeat("x", mostSecret+1))
	for _, test := range []struct {
		redis Redis
		want  string
	}{
		{Redis{URL: "redis://a:1/2"}, "redis://a:1/2"},
		{Redis{URL: "redis://a:1/2", PasswordFile: password}, "redis://:hun%2Fter2@a:1/2"},
		{Redis{URL: "redis://joe@a:1?addr=b:2", PasswordFile: windows}, "redis://joe:hunter%203@a:1?addr=b:2"},
		{
			Redis{URL: "redis://a?master_set=m", SentinelPasswordFile: windows},
			"redis://a?master_set=m&sentinel_password=hunter+3",
		},
	} {
		if got, err := test.redis.Address(); err != nil || got != test.want {
			t.Errorf("%+v is at %s: %v", test.redis, got, err)
		}
	}
	for name, says := range map[string]string{
		filepath.Join(dir, "none"): "none: no such file or directory", empty: "e: the file is empty",
		large: "l: it has more than 64KiB", dir: "is a directory",
	} {
		for _, r := range []Redis{{URL: "redis://a", PasswordFile: name}, {URL: "redis://a", SentinelPasswordFile: name}} {
			if got, err := r.Address(); err == nil || !strings.Contains(err.Error(), says) || got != "" {
				t.Errorf("%+v is at %s: %v, want what says %q", r, got, err, says)
			}
		}
	}
}

// A password that changes in its file is the next one that Redis gets.
func TestCredentialsOfRedis(t *testing.T) {
	if (&Redis{URL: "redis://:hunter2@a"}).Credentials() != nil {
		t.Error("there are credentials without a file")
	}
	file := filepath.Join(t.TempDir(), "password")
	ask := (&Redis{URL: "redis://joe@a", PasswordFile: file}).Credentials()
	for _, want := range []string{"first", "second"} {
		if err := os.WriteFile(file, []byte(want+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if user, password, err := ask(t.Context()); user != "joe" || password != want || err != nil {
			t.Errorf("asked for joe's password: %q, %q, %v, want %q", user, password, err, want)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, password, err := ask(t.Context()); err == nil || password != "" {
		t.Errorf("without a file: %q, %v", password, err)
	}
}

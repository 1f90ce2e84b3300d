package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/internal/config"
	"github.com/lockagent/lockagent/internal/machinetest"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// block is a block of code in a document.
type block struct{ language, text string }

func blocksOf(t *testing.T, file string) (all []block) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
		all = append(all, block{m[1], m[2]})
	}
	return all
}

// shape is what a JSON is made of: the names of its fields and the types of their values.
func shape(v any) string {
	switch v := v.(type) {
	case map[string]any:
		var fields []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			fields = append(fields, name+": "+shape(v[name]))
		}
		return "{" + strings.Join(fields, ", ") + "}"
	case []any:
		var kinds []string
		for _, one := range v {
			kinds = append(kinds, shape(one))
		}
		slices.Sort(kinds)
		return "[" + strings.Join(slices.Compact(kinds), ", ") + "]"
	}
	return fmt.Sprintf("%T", v)
}

func shapeOf(t *testing.T, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Errorf("%v in\n%s", err, text)
		return ""
	}
	return ofRoot.Replace(shape(v))
}

// ofRoot leaves out numbers that are 0 for root, and then are not told.
var ofRoot = strings.NewReplacer("gid: float64, ", "", ", uid: float64", "")

// The examples are one script. Each output has the fields that the document shows.
func TestExamplesOfTheAPI(t *testing.T) {
	t.Parallel()
	d, dir := runDaemon(t), t.TempDir()
	var script strings.Builder
	script.WriteString("set -e\n")
	want := make(map[string]string) // shapes by file
	blocks := blocksOf(t, "../../docs/api.md")
	for i, b := range blocks {
		if b.language != "sh" {
			continue
		}
		file := fmt.Sprintf("out.%d", i)
		fmt.Fprintf(&script, "{\n%s} >%s\n", b.text, file)
		if i+1 < len(blocks) && blocks[i+1].language == "json" {
			want[file] = blocks[i+1].text
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script.String())
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "LOCKAGENT_SOCKET="+d.Path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if len(want) < 10 {
		t.Errorf("there are %d outputs", len(want))
	}
	for file, text := range want {
		out, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Error(err)
			continue
		}
		if got, want := shapeOf(t, string(out)), shapeOf(t, text); got != want {
			t.Errorf("the document shows\n%s\nbut it is\n%s", text, string(out))
		}
	}
}

// What the document shows of gRPC is what its client writes. The fields of a JSON count, and each character of another
// text.
func TestExamplesOfGRPC(t *testing.T) {
	t.Parallel()
	bin, err := filepath.Abs("../../bin")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(bin, "grpcurl")); err != nil {
		machinetest.Needs(t, fmt.Errorf("CI=true make deps installs grpcurl: %w", err))
	}
	d := runDaemon(t)
	var commands []string
	for _, b := range blocksOf(t, "../../docs/api.md") {
		if b.language == "console" {
			commands = append(commands, strings.Split("\n"+b.text, "\n$ ")[1:]...)
		}
	}
	if len(commands) < 4 {
		t.Errorf("there are %d commands", len(commands))
	}
	for _, command := range commands {
		line, want, _ := strings.Cut(command, "\n")
		cmd := exec.CommandContext(t.Context(), "bash", "-c", line)
		cmd.Dir = "../.." // of the files in proto
		cmd.Env = append(os.Environ(), "LOCKAGENT_SOCKET="+d.Path, "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v", line, err)
		}
		got, want := strings.TrimSpace(string(out)), strings.TrimSpace(want)
		if strings.HasPrefix(want, "{") {
			got, want = shapesOf(t, got), shapesOf(t, want)
		}
		if got != want {
			t.Errorf("after %s the document shows\n%s\nbut it is\n%s", line, want, out)
		}
	}
}

// shapesOf is the shapes of all messages of a stream.
func shapesOf(t *testing.T, text string) string {
	var shapes []string
	for d := json.NewDecoder(strings.NewReader(text)); d.More(); {
		var one json.RawMessage
		if err := d.Decode(&one); err != nil {
			t.Errorf("%v in\n%s", err, text)
			break
		}
		shapes = append(shapes, shapeOf(t, string(one)))
	}
	return strings.Join(shapes, "\n")
}

// What verbs write has the fields that the document shows, and no others.
func TestDocumentedJSON(t *testing.T) {
	t.Parallel()
	documented := make(map[string]string)
	text, err := os.ReadFile("../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?ms)^```json (\\w+)\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
		documented[m[1]] = m[2]
	}
	d := runDaemon(t)
	socket := []string{"--socket", d.Path}
	written := func(args ...string) string {
		r := call(t, append(append(args[:1:1], socket...), args[1:]...)...)
		r.expect(t, cli.ExitOK, nil, nil)
		return r.stdout
	}
	acquired := written("acquire", "--format", "json", "-s", "--ttl", "1h", "--label", "ticket=7", "orders/42")
	start(t, append([]string{"acquire", "-x", "--ttl", "1h", "orders/42"}, socket...)...)
	d.until(t, "orders/42", func(l *lockagentv1.Lock) bool { return l.GetWaiting() == 1 })
	for name, got := range map[string]string{
		"acquire": acquired,
		"ls":      written("ls", "--format", "json"),
		"show":    written("show", "--format", "json", "orders/42"),
		"doctor":  written("doctor", "--format", "json", "--state-dir", t.TempDir()),
		"config":  call(t, "config", "show", "--format", "json").stdout,
	} {
		if got, want := shapeOf(t, got), shapeOf(t, documented[name]); got != want {
			t.Errorf("of %s the document shows\n%s\nbut it is\n%s", name, want, got)
		}
		delete(documented, name)
	}
	for name := range documented {
		t.Errorf("nobody writes the form of %s", name)
	}
	// What a setting can come from.
	if says := fmt.Sprintf(
		"`from` is %s, %s, %s or %s,", config.FromFlag, config.FromVariable, config.FromFile, config.FromDefault,
	); !strings.Contains(string(text), says) {
		t.Errorf("the document does not say %q", says)
	}
	// A line of the watch is an element of the list.
	var list struct{ Locks []json.RawMessage }
	if err := json.Unmarshal([]byte(written("ls", "--format", "json")), &list); err != nil || len(list.Locks) != 1 {
		t.Fatalf("%v: %d locks", err, len(list.Locks))
	}
	if got, want := shapeOf(t, written("ls", "--format", "jsonl")), shapeOf(t, string(list.Locks[0])); got != want {
		t.Errorf("a line is %s, and an element %s", got, want)
	}
	// The break is for the one who waits.
	call(t, append([]string{"break", "--yes", "orders/42"}, socket...)...).expect(t, cli.ExitOK, nil, nil)
}

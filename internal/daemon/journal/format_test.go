package journal

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/lockagent/lockagent/actor"
)

var update = flag.Bool("update", false, "write the files of the present format in testdata")

// content is what a file says.
type content struct {
	Agent   actor.AgentSnapshot
	Records map[string][]byte
}

func said(t *testing.T, s *state) []byte {
	t.Helper()
	n := s.fold.Now()
	n.Taken.Wall = n.Taken.Wall.UTC()
	text, err := json.MarshalIndent(content{n, s.records}, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The files of earlier versions are read, and say the same as ever. After a change of the format there is another pair of files,
// and the old ones stay.
func TestFormats(t *testing.T) {
	if *update {
		_, file := written(t, 3)
		s, err := parse("", file)
		if err != nil {
			t.Fatal(err)
		}
		text := said(t, s)
		for name, data := range map[string][]byte{"format2.journal": file, "format2.json": text} {
			if err := os.WriteFile(filepath.Join("testdata", name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	files, err := filepath.Glob("testdata/*.journal")
	if err != nil || len(files) != format {
		t.Fatalf("%q for %d formats, %v", files, format, err)
	}
	for _, path := range files {
		s, err := read(path)
		if err != nil {
			t.Fatal(err)
		}
		got := said(t, s)
		want, err := os.ReadFile(path[:len(path)-len("journal")] + "json")
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s says\n%s", path, got)
		}
	}
}

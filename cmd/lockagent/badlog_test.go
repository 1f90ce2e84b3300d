package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/logtest"
)

// What is no event log, or none that this version understands, is said to be so by each verb. Only what
// is there to see is shown.
func TestLogsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	log := logtest.LossOf(t, logtest.Begun)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	notes := file("notes.txt", "buy milk\n")
	binary := file("binary", strings.Repeat("\x00", 2<<20))
	torn := file("torn.jsonl", log+log[:100])
	foreign := file("foreign.jsonl", log+strings.Replace(lines(log)[0], ".v1\"", ".v9\"", 1))
	empty := file("empty.jsonl", "")
	missing := filepath.Join(dir, "missing")
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte(log)); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	zipped := file("log.jsonl.gz", packed.String())
	wide := file("wide.jsonl", "\xff\xfe"+strings.Join(strings.Split(log, ""), "\x00")+"\x00")
	marked := file("marked.jsonl", "\xef\xbb\xbf"+log)

	audit, holders := []string{"audit"}, []string{"holders"}
	history, state := []string{"history", "orders/42"}, []string{"state", "orders/42", "--at", "-0s"}
	all := [][]string{audit, holders, history, state, {"tail"}}
	for _, test := range []struct {
		name  string
		verbs [][]string
		place []string
		code  int
		says  string // on the standard error
		try   string // which may be the beginning
	}{
		{"NoFile", all, []string{"--file", missing}, cli.ExitUsage, "no such file", " --file events.jsonl\n"},
		{"FileIsDirectory", all, []string{"--file", dir}, cli.ExitUsage, "is a directory", " --dir " + dir},
		{
			"Binary", all,
			[]string{"--file", binary},
			cli.ExitUsage, "this is no event log in lines of JSON",
			"lockagent events tail --all --follow=false --format jsonl > ",
		},
		{
			"Compressed", all,
			[]string{"--file", zipped},
			cli.ExitUsage, "the event log is compressed by gzip",
			"gzip -dc " + zipped + " | lockagent events ",
		},
		{
			"InUTF16", all,
			[]string{"--file", wide},
			cli.ExitUsage, "the event log is in UTF-16",
			"iconv -f UTF-16 -t UTF-8 " + wide + " | lockagent events ",
		},
		{"WithAMark", [][]string{history, state, holders}, []string{"--file", marked}, cli.ExitOK, "", ""},
		{
			"NoDirectory", all,
			[]string{"--dir", missing},
			cli.ExitUsage, "there is no directory",
			"lockagent demo --keep " + missing,
		},
		{"DirectoryIsFile", all, []string{"--dir", notes}, cli.ExitUsage, "is no directory", " --file " + notes},
		{
			"OtherDirectory", all,
			[]string{"--dir", dir},
			cli.ExitEmpty, "there is no event log in",
			"lockagent demo --keep demo.log",
		},
		{
			"NothingReadable",
			[][]string{history, state, holders},
			[]string{"--file", notes},
			cli.ExitFailed,
			"that can be read: 1 message cannot", "lockagent events audit --file " + notes,
		},
		{"NothingReadable", [][]string{audit}, []string{"--file", notes}, cli.ExitIncomplete, "not proven: incomplete", ""},
		{
			"NothingReadable",
			[][]string{{"tail"}},
			[]string{"--file", notes},
			cli.ExitFailed, "line 1: ",
			"lockagent events audit --file " + notes,
		},
		{
			"Torn",
			[][]string{history, state, holders},
			[]string{"--file", torn},
			cli.ExitOK,
			"1 message cannot be read, so this may lack something; see lockagent events audit --file " + torn, "",
		},
		{"Torn", [][]string{audit}, []string{"--file", torn}, cli.ExitIncomplete, "not proven", ""},
		{
			"Foreign",
			[][]string{history, state, holders},
			[]string{"--file", foreign},
			cli.ExitOK,
			"1 event is of kinds or versions that this program does not know", "",
		},
		{
			"Empty",
			[][]string{history, state, holders},
			[]string{"--file", empty},
			cli.ExitEmpty, "the event log has nothing",
			"lockagent ",
		},
		{"Empty", [][]string{audit}, []string{"--file", empty}, cli.ExitEmpty, "the event log is empty", "lockagent "},
	} {
		for _, verb := range test.verbs {
			t.Run(test.name+"/"+verb[0], func(t *testing.T) {
				r := call(t, append(append([]string{"events"}, verb...), test.place...)...)
				r.expect(t, test.code, nil, []string{test.says})
				if _, try, _ := strings.Cut(r.stderr, "\nTry: "); !strings.Contains(try, test.try) {
					t.Errorf("it says to try %q, want %q", try, test.try)
				}
			})
		}
	}
}

// The command for a file that is compressed asks the same question.
func TestTryOfACompressedFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log.jsonl.gz")
	if err := os.WriteFile(path, []byte("\x1f\x8b\x08"), 0o600); err != nil {
		t.Fatal(err)
	}
	for verb, want := range map[string]string{
		"audit --lock orders/> --since 1h --independent=false": "audit --lock 'orders/>' --since 1h --independent=false " +
			"--file -",
		"history orders/42 --last 5":                   "history orders/42 --last 5 --file -",
		"history orders/> --format jsonl":              "history 'orders/>' --format jsonl --file -",
		"tail --kind granted,lost --agent a --agent b": "tail --kind granted,lost --agent a,b --file -",
	} {
		r := call(t, append(append([]string{"events"}, strings.Fields(verb)...), "--file", path)...)
		r.expect(t, cli.ExitUsage, nil, []string{"\nTry: gzip -dc " + path + " | lockagent events " + want + "\n"})
	}
}

func TestCheckpointsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	log := kept(t)
	dir := t.TempDir()
	checkpoint := filepath.Join(dir, "audit.json")
	audit := func(args ...string) result {
		return call(t, append([]string{"events", "audit", "--dir", log, "--checkpoint"}, args...)...)
	}
	audit(checkpoint).expect(t, cli.ExitOK, []string{"proven: "}, nil)
	good, err := os.ReadFile(checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		content, says string
	}{
		"Empty":        {"", "no checkpoint of an audit that this version can resume from"},
		"OtherVersion": {strings.Replace(string(good), `"version":`, `"version":9`, 1), "it has version 9"},
		"Altered": {
			strings.Replace(string(good), `"snapshot":{"`, `"snapshot":{ "`, 1),
			"no checkpoint of an audit that this version can resume from",
		},
		"Torn": {string(good[:len(good)/2]), "no checkpoint of an audit that this version can resume from"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			audit(path).expect(t, cli.ExitUsage, nil, []string{
				path + ": " + "no checkpoint", test.says,
				"\nTry: lockagent events audit --dir " + cli.ShellWord(log) + " --checkpoint " + path + ".new\n",
			})
			if left, err := os.ReadFile(path); err != nil || string(left) != test.content {
				t.Errorf("the file was changed: %v", err)
			}
		})
	}
	audit(dir).expect(t, cli.ExitUsage, nil, []string{
		"the checkpoint cannot be read",
		"\nTry: lockagent events audit --dir " + cli.ShellWord(log) + " --checkpoint audit.json\n",
	})
}

// Whoever mistypes the name of a lock is not told that it is proven.
func TestAuditOfALockThatIsNotThere(t *testing.T) {
	r := callWith(t, logtest.LossOf(t, logtest.Begun), "events", "audit", "--file", "-", "--lock", "orders/4")
	r.expect(t, cli.ExitEmpty, []string{"empty: there are no holds\n"}, []string{
		`the event log has no holds of "orders/4"`, "Try: lockagent events holders --file -\n",
	})
}

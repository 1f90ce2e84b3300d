package cli

import "testing"

func TestShellWord(t *testing.T) {
	for text, want := range map[string]string{
		"":            "''",
		"/a/b-c_1.d~": "'/a/b-c_1.d~'",
		"/a/b-c_1.d":  "/a/b-c_1.d",
		"a b":         "'a b'",
		"it's":        `'it'\''s'`,
		"$HOME":       "'$HOME'",
	} {
		if got := ShellWord(text); got != want {
			t.Errorf("shellWord(%q) is %s, want %s", text, got, want)
		}
	}
}

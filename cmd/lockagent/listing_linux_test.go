package main

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
)

// onTerminal runs the program with a terminal for its standard output, and returns what is on it.
func onTerminal(t *testing.T, args ...string) string {
	t.Helper()
	screen, terminal := newTerminal(t)
	defer screen.Close()
	shown := make(chan string)
	go func() {
		text, _ := io.ReadAll(screen) // it ends with an error when nobody has the terminal any more
		shown <- strings.ReplaceAll(string(text), "\r\n", "\n")
	}()
	var stderr strings.Builder
	if code := run(context.Background(), args, strings.NewReader(""), terminal, &stderr); code != cli.ExitOK {
		t.Errorf("exit code %d: %s", code, &stderr)
	}
	if err := terminal.Close(); err != nil {
		t.Fatal(err)
	}
	return <-shown
}

func TestListsAreTablesOnATerminal(t *testing.T) {
	settings(t, "host: web-1")
	table := call(t, "config", "show", "--format", "table").stdout
	if got := onTerminal(t, "config", "show"); got != table || !strings.HasPrefix(got, "SETTING  ") {
		t.Errorf("the terminal shows\n%s\nwant\n%s", got, table)
	}
	text := call(t, "config", "show").stdout
	if got := onTerminal(t, "config", "show", "--format", "text"); strings.Contains(got, "SETTING") ||
		len(strings.Fields(got)) != len(strings.Fields(text)) {
		t.Errorf("with --format text the terminal shows\n%s", got)
	}
}

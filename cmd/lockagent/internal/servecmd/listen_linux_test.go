package servecmd

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/internal/config"
)

// A daemon that cannot have the directory of its socket says how to start it where no other user can listen in its
// place.
func TestTheSocketIsWhereOthersCannotListen(t *testing.T) {
	home, file := t.TempDir(), filepath.Join(t.TempDir(), "file")
	t.Setenv("HOME", home)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	settings, err := config.Load(config.Inputs{Dir: home, Flags: map[string]string{"config": file}})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{}
	s.config.Store(settings)
	err = s.makeSocketDir("socket.path", filepath.Join(file, "agent.sock"))
	if f, ok := errors.AsType[*cli.Failure](err); !ok ||
		f.Try != "lockagent serve --socket "+filepath.Join(home, "lockagent.sock") {
		t.Errorf("%+v", err)
	}
}

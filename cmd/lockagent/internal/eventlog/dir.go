package eventlog

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/internal/natsserver"
)

// storage is the directory of a NATS server in the directory of its log.
const storage = "jetstream"

// Makes is a command that makes an event log in a directory.
const Makes = "lockagent demo --keep "

// CheckNewDir finds out whether an event log can begin, or go on, in a directory. A directory
// that has other files is not filled with ours.
func CheckNewDir(dir string) error {
	try := Makes + cli.ShellWord(filepath.Join(dir, "log"))
	files, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) || len(files) == 0 && err == nil:
		return nil
	case err != nil:
		return cli.Usage(Makes+"demo.log", "the event log cannot be kept in %s: %w", dir, err)
	case !hasStorage(dir):
		return cli.Usage(try, "%s has other files, and no event log; give a new directory", dir)
	}
	return nil
}

// OpenDir starts a server on the event log in a directory. Nobody outside this process can
// reach it.
func OpenDir(dir string, logger *slog.Logger) (*natsserver.Server, error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, cli.Usage(Makes+cli.ShellWord(dir), "there is no directory %s", dir)
	case err != nil:
		return nil, cli.Usage(Makes+"demo.log", "the event log cannot be read: %w", err)
	case !info.IsDir():
		return nil, cli.Usage("lockagent events audit --file "+cli.ShellWord(dir), "%s is no directory", dir)
	case !hasStorage(dir):
		return nil, NoLogIn(dir)
	}
	server, err := natsserver.Start(natsserver.Config{Dir: dir, Logger: logger})
	if errors.Is(err, natsserver.ErrInUse) {
		return nil, DirInUse(dir)
	}
	if err != nil {
		return nil, &cli.Failure{Code: cli.ExitFailed, Err: err}
	}
	return server, nil
}

func hasStorage(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, storage))
	return err == nil && info.IsDir()
}

// NoLogIn is the error of a directory without an event log.
func NoLogIn(dir string) error {
	return &cli.Failure{Code: cli.ExitEmpty, Err: fmt.Errorf("there is no event log in %s", dir), Try: Makes + "demo.log"}
}

// DirInUse tells of a directory that another process has. Two servers on one directory would
// lose what they acknowledged.
func DirInUse(dir string) error {
	return &cli.Failure{
		Code: cli.ExitUnavailable,
		Err:  fmt.Errorf("the event log in %s is in use by another process; wait until that has ended", dir),
	}
}

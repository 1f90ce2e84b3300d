//go:build linux

package servecmd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/internal/config"
	"github.com/lockagent/lockagent/internal/daemon/socket"
)

// openSocket listens for clients.
func (s *server) openSocket() (err error) {
	if s.listener, err = s.listen(); err != nil {
		return err
	}
	s.onClose(func() error { return closeListener(s.listener) })
	return nil
}

// closeListener closes a listener that the daemon closes, too.
func closeListener(l net.Listener) error {
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// listen listens on the socket that systemd passed, or on the one of the settings.
func (s *server) listen() (net.Listener, error) {
	switch passed, err := socket.Activated(SocketName); {
	case err != nil:
		return nil, &cli.Failure{Code: cli.ExitFailed, Err: err}
	case passed != nil:
		return passed, nil // systemd has set its mode and its group
	}
	at := s.settings().Socket
	group, err := groupNumber(at.Group)
	if err != nil {
		return nil, &cli.Failure{
			Code: cli.ExitConfig, Err: fmt.Errorf("socket.group: %w", err), Try: "getent group    (shows those that there are)",
		}
	}
	if err := s.makeSocketDir("socket.path", at.Path); err != nil {
		return nil, err
	}
	listener, err := socket.Listen(socket.Config{
		Path: at.Path, Mode: at.Mode, Group: group, Remade: s.remade("socket", at.Path),
	})
	if errors.Is(err, socket.ErrTaken) {
		return nil, &cli.Failure{
			Code: cli.ExitFailed, Err: err, Try: "lockagent serve --socket " + cli.ShellWord(at.Path+"2"),
		}
	}
	if err != nil {
		return nil, &cli.Failure{Code: cli.ExitFailed, Err: err}
	}
	return listener, nil
}

// remade logs what became of a socket whose file somebody has removed.
func (s *server) remade(what, path string) func(error) {
	return func(err error) {
		if err != nil {
			s.logger.Error("somebody has removed the "+what+", and it cannot be made again", "path", path, "error", err)
			return
		}
		s.logger.Warn("somebody had removed the "+what+", and it is there again", "path", path)
	}
}

// makeSocketDir makes the directory of a socket, if nobody has said where that is.
func (s *server) makeSocketDir(key, path string) error {
	if s.config.Load().Origin(key).Kind != config.FromDefault {
		return nil
	}
	mode := os.FileMode(0o700)
	if os.Geteuid() == 0 { // its daemon may be for all
		mode = 0o755
	}
	if err := os.MkdirAll(filepath.Dir(path), mode); err != nil {
		home, _ := os.UserHomeDir() // one where others may write is no place for a socket
		return &cli.Failure{
			Code: cli.ExitFailed, Err: err,
			Try: "lockagent serve --socket " + cli.ShellWord(filepath.Join(home, "lockagent.sock")),
		}
	}
	return nil
}

// groupNumber is the number of a group, or 0 for none.
func groupNumber(name string) (int, error) {
	if name == "" {
		return 0, nil
	}
	if n, err := strconv.Atoi(name); err == nil {
		return n, nil
	}
	group, err := user.LookupGroup(name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(group.Gid)
}

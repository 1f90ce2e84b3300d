package natsserver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"
)

const (
	// mendInterval is the time between two looks whether there is room on the disk.
	mendInterval = time.Second

	// enoughRoom is how many bytes must fit on the disk before the server starts anew.
	enoughRoom = 1 << 20

	roomFile = "ROOM"
)

// mend starts the NATS server anew after it has given up writing a stream, as soon as the disk takes files again. A
// server writes such a stream again only after it has read the stream once more, as at its start. mend returns when ctx
// ends.
func (s *Server) mend(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.log.broken:
		}
		told := ""
		for err := s.relaunch(ctx); err != nil; err = s.relaunch(ctx) {
			if why := err.Error(); why != told && ctx.Err() == nil { // not each second
				s.cfg.Logger.Warn("nats: the server cannot start anew yet", "error", err)
				told = why
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(mendInterval):
			}
		}
		s.cfg.Logger.Info("nats: there is room on the disk again, and the server has started anew")
	}
}

// relaunch starts the NATS server anew if the disk has room. Otherwise it returns why not, and the server goes on as it
// is.
func (s *Server) relaunch(ctx context.Context) error {
	if err := s.tryDisk(); err != nil {
		return err
	}
	old := s.server()
	old.Shutdown()
	old.WaitForShutdown()
	s.log.forget() // that it could not write what it had to at its end
	return s.launch(ctx)
}

// tryDisk writes a file and removes it.
func (s *Server) tryDisk() error {
	path := filepath.Join(s.cfg.Dir, roomFile)
	err := os.WriteFile(path, make([]byte, enoughRoom), 0o600)
	return errors.Join(err, os.Remove(path))
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lockagent/lockagent/events"
)

// begin returns an audit of an empty log, or the one that the checkpoint has.
func (f *auditFlags) begin() (*events.Audit, error) {
	if f.checkpoint == "" {
		return events.NewAudit(), nil
	}
	text, err := os.ReadFile(f.checkpoint)
	if errors.Is(err, fs.ErrNotExist) {
		return events.NewAudit(), nil
	}
	if err != nil {
		return nil, usage("lockagent events audit --checkpoint audit.json", "the checkpoint cannot be read: %w", err)
	}
	audit, err := events.ResumeAudit(text)
	if err != nil {
		return nil, usage("lockagent events audit --checkpoint "+shellWord(f.checkpoint+".new"), "%s is no checkpoint: %w", f.checkpoint, err)
	}
	return audit, nil
}

// identify makes sure that the checkpoint is of this stream, if there is one already.
func (f *auditFlags) identify(ctx context.Context, log *eventLog, audit *events.Audit) error {
	state, err := log.reader.State(ctx)
	if errors.Is(err, events.ErrNoStream) {
		return nil
	}
	if err != nil {
		return log.explain(err)
	}
	if err := audit.Identify(state.ID()); err != nil {
		return usage("lockagent events audit --checkpoint "+shellWord(f.checkpoint+".new"), "%s: %w", f.checkpoint, err)
	}
	return nil
}

// save writes the checkpoint, if there is to be one. A crash leaves the old one or the new one.
func (f *auditFlags) save(snapshot func() events.Snapshot) error {
	if f.checkpoint == "" {
		return nil
	}
	text, err := snapshot().Checkpoint()
	if err != nil {
		return err
	}
	if err := replaceFile(f.checkpoint, text); err != nil {
		return &failure{code: exitFailed, err: fmt.Errorf("the checkpoint cannot be written: %w", err)}
	}
	return nil
}

// replaceFile gives a file another content.
func replaceFile(path string, content []byte) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name()) // the error is the one to tell
		}
	}()
	_, err = file.Write(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

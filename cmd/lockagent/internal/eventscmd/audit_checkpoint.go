package eventscmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/events/natslog"
)

// checkCheckpoint finds out whether there can be a checkpoint where the flag says, before the log is read.
func (f *auditFlags) checkCheckpoint() error {
	if f.checkpoint == "" {
		return nil
	}
	dir := filepath.Dir(f.checkpoint)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return cli.Usage(f.withCheckpoint("audit.json"), "there is no directory %s for the checkpoint", dir)
	}
	return nil
}

// withCheckpoint is an audit of the same log with another checkpoint.
func (f *auditFlags) withCheckpoint(path string) string {
	return "lockagent events audit" + f.place() + " --checkpoint " + cli.ShellWord(path)
}

// followPatience is the default of --patience with --follow. What is judged stays judged, so an agent that is cut off
// from the hub for less holds up the judgement instead.
const followPatience = 10 * time.Minute

// newAudit returns an audit of an empty log, or the one that the checkpoint has.
func (f *auditFlags) newAudit(cmd *cobra.Command) (*audit.Audit, error) {
	auditor, err := f.resume()
	if err != nil {
		return nil, err
	}
	if f.during.Asked() {
		auditor.Within(audit.TimeRange{From: f.during.Since, Until: f.during.Until})
	}
	if cmd.Flags().Changed("tail") {
		auditor.Tail = f.tail
	}
	switch {
	case cmd.Flags().Changed("patience"):
		auditor.Patience = f.patience
	case f.follow:
		auditor.Patience = max(auditor.Patience, followPatience)
	}
	return auditor, nil
}

func (f *auditFlags) resume() (*audit.Audit, error) {
	if f.checkpoint == "" {
		return audit.New(), nil
	}
	text, err := os.ReadFile(f.checkpoint)
	if errors.Is(err, fs.ErrNotExist) {
		return audit.New(), nil
	}
	if err != nil {
		return nil, cli.Usage(f.withCheckpoint("audit.json"), "the checkpoint cannot be read: %w", err)
	}
	auditor, err := audit.Resume(text)
	if err != nil {
		return nil, cli.Usage(f.withCheckpoint(f.checkpoint+".new"), "%s: %s", f.checkpoint, withoutPackage(err))
	}
	return auditor, nil
}

// identify makes sure that the checkpoint is of this stream, if there is one already. A file is none.
func (f *auditFlags) identify(
	ctx context.Context, log *eventLog, auditor *audit.Audit,
) (state natslog.StreamState, err error) {
	if log.grown == nil {
		return state, nil
	}
	state, err = log.grown.state(ctx)
	if errors.Is(err, natslog.ErrNoStream) {
		return state, nil
	}
	if err != nil {
		return state, log.explain(err)
	}
	if err := auditor.Identify(state.ID()); err != nil {
		return state, cli.Usage(f.withCheckpoint(f.checkpoint+".new"), "%s: %s", f.checkpoint, withoutPackage(err))
	}
	if !state.Shared {
		auditor.ReadsAll()
	}
	return state, nil
}

// withoutPackage is an error of package events where it is clear what it is about.
func withoutPackage(err error) string { return strings.TrimPrefix(err.Error(), "events: ") }

// save writes the checkpoint, if there is to be one. A crash leaves the old one or the new one.
func (f *auditFlags) save(snapshot func() audit.Snapshot) error {
	if f.checkpoint == "" {
		return nil
	}
	text, err := snapshot().Checkpoint()
	if err != nil {
		return err
	}
	if err := replaceFile(f.checkpoint, text); err != nil {
		return &cli.Failure{Code: cli.ExitFailed, Err: fmt.Errorf("the checkpoint cannot be written: %w", err)}
	}
	return nil
}

// operator is who runs the program.
func operator() string {
	name, host := "somebody", "an unknown host"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
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

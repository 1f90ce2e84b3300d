package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// daemon is lockagent serve as a process. It is configured by nothing but its flags.
type daemon struct {
	dir  string
	path string // of the program
	args []string

	cmd      *exec.Cmd
	said     *said
	gone     chan struct{} // closed when the process has ended
	operator *http.Client
}

// startDaemon starts a daemon with a directory of its own, and waits until it is ready. The end of this process kills
// it.
func (b *bench) startDaemon(ctx context.Context, flags ...string) (*daemon, error) {
	path, err := b.programs.path(ctx, lockagentProgram)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "bench") // short, for the sockets
	if err != nil {
		return nil, err
	}
	d := &daemon{dir: dir, path: path}
	config := filepath.Join(dir, "config.yaml") // in place of that of the user
	d.args = append(
		[]string{
			"serve", "--config", config, "--state-dir", filepath.Join(dir, "state"), "--socket", d.socket(), "--operator-socket",
			d.operatorSocket(),
		},
		flags...,
	)
	d.operator = &http.Client{
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", d.operatorSocket())
		}},
	}
	if err = os.WriteFile(config, []byte("{}\n"), 0o600); err == nil {
		err = d.start(ctx)
	}
	if err != nil {
		d.remove()
		return nil, err
	}
	return d, nil
}

// socket is where clients connect.
func (d *daemon) socket() string { return filepath.Join(d.dir, "agent.sock") }

func (d *daemon) operatorSocket() string { return filepath.Join(d.dir, "operator.sock") }

// start starts the process. The state directory may have what an earlier one left.
func (d *daemon) start(ctx context.Context) error {
	d.cmd = exec.Command(d.path, d.args...)
	d.cmd.SysProcAttr = dieWithParent()
	d.cmd.Env = withoutSettings()
	d.said = new(said)
	d.cmd.Stdout, d.cmd.Stderr = d.said, d.said
	if err := d.cmd.Start(); err != nil {
		return err
	}
	gone := make(chan struct{})
	d.gone = gone
	go func() {
		_ = d.cmd.Wait() // whoever misses the daemon says what it said
		close(gone)
	}()
	if err := d.ready(ctx); err != nil {
		d.kill()
		return err
	}
	return nil
}

// withoutSettings is the environment without the settings of lockagent.
func withoutSettings() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "LOCKAGENT_") })
}

// ready waits until the daemon can grant locks.
func (d *daemon) ready(ctx context.Context) error {
	const pause, most = 2 * time.Millisecond, time.Minute
	for began := time.Now(); ; {
		err := d.ask(ctx, "/readyz", io.Discard)
		if err == nil {
			return nil
		}
		if time.Since(began) > most {
			return fmt.Errorf("the daemon is not ready: %w: %s", err, d.said)
		}
		select {
		case <-time.After(pause):
		case <-d.gone:
			return fmt.Errorf("the daemon has ended: %s", d.said)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ask gets a page of the operator's socket.
func (d *daemon) ask(ctx context.Context, path string, into io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://operator"+path, nil)
	if err != nil {
		return err
	}
	answer, err := d.operator.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(into, answer.Body)
	if answer.StatusCode != http.StatusOK {
		err = errors.Join(err, errors.New(answer.Status))
	}
	return errors.Join(err, answer.Body.Close())
}

// kill kills the process as kill -9 does, and leaves its directory.
func (d *daemon) kill() {
	_ = d.cmd.Process.Kill()
	<-d.gone
	d.operator.CloseIdleConnections()
}

// end kills the process and removes its directory.
func (d *daemon) end() {
	d.kill()
	d.remove()
}

func (d *daemon) remove() { _ = os.RemoveAll(d.dir) }

// said is what a process has said.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

// Write implements [io.Writer].
func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

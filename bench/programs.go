package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
)

// programs builds the programs that scenarios start. Each is built once for a run.
type programs struct {
	mu  sync.Mutex // held while a program is built
	dir string     // guarded by mu; empty before the first one
}

// The programs, by what go build calls them.
const (
	lockagentProgram = "../cmd/lockagent"
	nothingProgram   = "./nothing" // see there
)

// path builds a program, if nobody has, and returns where it is.
func (p *programs) path(ctx context.Context, source string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dir == "" {
		dir, err := os.MkdirTemp("", "bench")
		if err != nil {
			return "", err
		}
		p.dir = dir
	}
	path := filepath.Join(p.dir, filepath.Base(source))
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	unfinished := path + ".new"
	// From the module that it belongs to, and as make build does it.
	build := exec.CommandContext(
		ctx, "go", "build", "-C", source, "-trimpath", "-tags", "grpcnotrace", "-ldflags", "-s -w", "-o", unfinished, ".",
	)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// The compiler and the linker end as well.
	build.Cancel = func() error { return syscall.Kill(-build.Process.Pid, syscall.SIGKILL) }
	if said, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s, from the folder bench: %w: %s", source, err, said)
	}
	return path, install(unfinished, path)
}

// install copies a program to where it is started, as who installs one does. The kernel keeps what the linker has
// written in single pages, and what is copied in larger pieces. So a program that has just been linked starts up to 2
// ms later.
func install(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	// A program that is started meanwhile would have the file open for writing, too, for a moment. Then the system
	// would not start what is in the file.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close(), os.Remove(from))
}

// remove removes what was built.
func (p *programs) remove() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dir != "" {
		_ = os.RemoveAll(p.dir)
		p.dir = ""
	}
}

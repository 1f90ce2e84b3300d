package natslog

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/events/audit"
	"github.com/lockagent/lockagent/internal/machinetest"
	"github.com/lockagent/lockagent/internal/natsserver"
	"github.com/lockagent/lockagent/internal/waittest"
)

func init() { parts["server on a disk"] = serveOnDisk }

// The kinds of disk.
const (
	ownDisk   = "a small disk of its own" // needs the right to mount
	fileLimit = "files that may not grow"
)

// serveOnDisk is a NATS server whose disk can be full.
func serveOnDisk() int {
	if err := serveUntilFull(setting("KIND"), setting("DIR"), setting("ADDR")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// serveUntilFull runs a server until the standard input ends. A line of it makes the disk full, or
// gives it room again.
func serveUntilFull(kind, dir, addr string) error {
	if kind == ownDisk { // in a mount namespace of this process, so that nothing is left behind
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64m"); err != nil {
			return err
		}
	}
	ballast := filepath.Join(dir, "ballast")
	fill := func() error {
		f, err := os.Create(ballast)
		for block := make([]byte, 4096); err == nil; {
			_, err = f.Write(block)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			return err
		}
		return f.Close()
	}
	free := func() error { return os.Remove(ballast) }
	if kind == fileLimit {
		limit := func(n uint64) func() error {
			return func() error { return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: ^uint64(0)}) }
		}
		fill, free = limit(20_000), limit(^uint64(0))
	}
	server, err := natsserver.Start(natsserver.Config{Dir: filepath.Join(dir, "nats"), Listen: addr})
	if err != nil {
		return err
	}
	fmt.Println(server.URL())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "fill":
			err = fill()
		case "free":
			err = free()
		}
		if err != nil {
			return errors.Join(err, server.Stop())
		}
		fmt.Println(in.Text())
	}
	return server.Stop()
}

// TestDiskFull has no room left on the disk of the NATS server, until the operator makes some.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{ownDisk, fileLimit} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := newProcess(t)
			server.part, server.settings["KIND"] = "server on a disk", kind
			if kind == ownDisk {
				server.attr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
				try := exec.Command(os.Args[0], "-test.run=^$")
				try.SysProcAttr = server.attr
				if err := try.Run(); errors.Is(err, syscall.EPERM) {
					machinetest.Needs(t, fmt.Errorf("the right to mount: %w", err))
				}
			}
			server.start()
			tell := func(order string) {
				t.Helper()
				server.say(order)
				if got := server.hear(); got != order {
					t.Fatalf("the server says %q; want %q", got, order)
				}
			}
			var log heard
			c := Connection{URL: server.url, Logger: log.logger()}
			p := newPublisher(t, Config{Connection: c, MaxBytes: -1})
			n := 0
			record := func(count int) {
				for range count {
					e := requested(n)
					e.Lock = lockagent.Name(fmt.Sprintf("orders/%d", n%7))
					p.Record(t.Context(), e)
					n++
				}
			}
			record(100)
			flushed(t, p)
			tell("fill")
			record(3000) // nobody waits for the disk
			waittest.Until(t, "the publisher knows why", func() bool { return errors.Is(p.Stats().Err, errSilent) })
			record(3000)
			published := p.Stats().Published
			done, cancel := contextEnded()
			defer cancel()
			if err := p.Flush(done); err == nil || published == uint64(n) {
				t.Errorf("flushed: %v", err)
			}
			waittest.Until(
				t, "its log says why", func() bool { return strings.Contains(log.String(), "cannot write to its disk") },
			)
			tell("free")
			flushed(t, p)
			wantStats(t, p, Stats{Recorded: uint64(n), Published: uint64(n)})
			if err := p.Close(waittest.Context(t)); err != nil {
				t.Error(err)
			}
			all, report := replayed(t, c, "")
			if report.Verdict != audit.Proven || len(all) != n {
				t.Errorf("%d records, want %d:\n%v", len(all), n, report)
			}
			wantOnce(t, all, n)
		})
	}
}

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lockagent/lockagent/internal/machinetest"
	"github.com/lockagent/lockagent/internal/redistest"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// ownMounts has a command run where it can mount what nobody else sees. It is root there.
func ownMounts(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if uid := os.Geteuid(); uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
		}
	}
	return cmd
}

// onSmallDisk starts a daemon whose state is on a disk of its own, of some bytes. The path leads to this disk from outside.
func onSmallDisk(t *testing.T, path string, size int, flags ...string) (d *process, disk string) {
	t.Helper()
	dir := path + ".disk"
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	mount := fmt.Sprintf("mount -t tmpfs -o size=%d lockagent %s", size, dir)
	if out, err := ownMounts(exec.Command("sh", "-c", mount)).CombinedOutput(); err != nil {
		machinetest.Needs(t, fmt.Errorf("this user can mount no small disk: %w: %s", err, out))
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-c", mount + ` && exec "$@"`, "sh", self, "serve", "--socket", path, "--state-dir", dir + "/state"}, flags...)
	d = launch(t, ownMounts(exec.Command("sh", args...)))
	d.stderr.await(t, "that it is ready", says("Ready: "))
	return d, fmt.Sprintf("/proc/%d/root%s", d.Process.Pid, dir)
}

// fill fills a disk, and returns the file that does it.
func fill(t *testing.T, disk string) (name string) {
	t.Helper()
	f, err := os.Create(filepath.Join(disk, "fill"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		_, err := f.Write(make([]byte, size))
		switch {
		case errors.Is(err, unix.ENOSPC):
			size /= 2
		case err != nil:
			t.Fatal(err)
		}
	}
	return f.Name()
}

// A daemon whose disk is full refuses what is new, and says why. It renews what is held. When there is room again, it goes on, and the next daemon
// goes on with everything.
func TestADiskThatIsFull(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	d, disk := onSmallDisk(t, path, 32<<20, "--lease", "20s", "--events-max-size", "4MiB")
	looks := &testDaemon{daemonClient: newDaemonClient(path)}
	t.Cleanup(looks.close)
	holder := lockProcess(t, path, "door", "--", "sh", "-c", "read line; echo $LOCKAGENT_TOKEN")
	if err := looks.until(t.Context(), "door", func(l *lockagentv1.Lock) bool { return l.GetHeld() == 1 }); err != nil {
		t.Fatal(err)
	}
	look := func() *lockagentv1.GetResponse {
		t.Helper()
		r, err := looks.look.Get(t.Context(), &lockagentv1.GetRequest{Name: "door"})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	token := look().GetLock().GetHolders()[0].GetToken()
	before := look().GetRemaining().AsDuration()
	filled := fill(t, disk)

	n := 0
	var refused result
	redistest.Eventually(t, "a request is refused", func() bool { // what fits into the last block is kept
		n++
		refused = call(t, "acquire", "--socket", path, "--ttl", "1h", fmt.Sprint("desk/", n))
		return refused.code != exitOK
	})
	refused.expect(t, exitUnavailable, nil, []string{"it cannot write its journal; see its log, and whether its disk is full"})
	d.stderr.await(t, "what its log says", says("/state/journal.new: no space left on device"))
	redistest.Eventually(t, "the hold is renewed", func() bool {
		now := look().GetRemaining().AsDuration()
		renewed := now > before
		before = now
		return renewed
	})

	if err := os.Remove(filled); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, "a request is granted", func() bool {
		return call(t, "acquire", "--socket", path, "--ttl", "1h", "desk").code == exitOK
	})
	d.stderr.await(t, "that it goes on", says("the journal is written again"))
	if err := os.CopyFS(path+".state", os.DirFS(disk+"/state")); err != nil {
		t.Fatal(err)
	}
	d.signal(t, syscall.SIGKILL)
	<-d.stderr.ended
	if err := os.Chmod(path+".state", 0o700); err != nil {
		t.Fatal(err)
	}
	serveProcess(t, path, nil, "--lease", "20s")
	if err := looks.until(t.Context(), "desk", func(l *lockagentv1.Lock) bool { return l.GetHeld() == 1 }); err != nil {
		t.Error(err)
	}
	holder.ended(t, fmt.Sprintln(token))
}

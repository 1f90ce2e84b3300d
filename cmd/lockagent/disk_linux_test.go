package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/client"
	"github.com/lockagent/lockagent/internal/machinetest"
	"github.com/lockagent/lockagent/internal/redistest"
	"github.com/lockagent/lockagent/internal/waittest"
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

// smallDisk is a disk of some bytes, which lasts until the test ends. do runs a command for root where it is mounted.
func smallDisk(t *testing.T, size int) (disk string, do func(command string)) {
	t.Helper()
	dir := shortDir(t)
	sh := ownMounts(exec.Command("sh"))
	in, err := sh.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	keeper := launch(t, sh)
	n := 0
	run := func(command string) (text string) {
		n++
		done := fmt.Sprintf("done %d with ", n)
		fmt.Fprintf(in, "%s >&2; echo %s$? >&2\n", command, done)
		keeper.stderr.await(t, "the end of "+command, says(done))
		text = keeper.stderr.String()
		return text[strings.LastIndex(text, done)+len(done):]
	}
	if code := run(fmt.Sprintf("mount -t tmpfs -o size=%d,nr_inodes=1000 lockagent %s", size, dir)); code != "0\n" {
		machinetest.Needs(t, fmt.Errorf("this user can mount no small disk: %s", &keeper.stderr))
	}
	disk = fmt.Sprintf("/proc/%d/root%s", keeper.Process.Pid, dir)
	return disk, func(command string) {
		t.Helper()
		if code := run("cd " + dir + " && " + command); code != "0\n" {
			t.Fatalf("%s: %s", command, &keeper.stderr)
		}
	}
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

// awaitRenewal waits until more is left of a lease than there was.
func awaitRenewal(t *testing.T, remaining func() time.Duration) {
	t.Helper()
	again := time.NewTicker(100 * time.Millisecond) // a renewal takes seconds to come, and each look costs
	defer again.Stop()
	before := remaining()
	waittest.Until(t, "the hold to be renewed", func() bool {
		<-again.C
		now := remaining()
		renewed := now > before
		before = now
		return renewed
	})
}

// A daemon whose disk is full refuses what is new, and says why. It renews what is held. When there is room again, it
// goes on, and the next daemon goes on with everything.
func TestADiskThatIsFull(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	disk, _ := smallDisk(t, 32<<20)
	d := serveProcess(t, path, nil, "--state-dir", disk+"/state", "--lease", "1m", "--events-max-size", "4MiB")
	looks := &testDaemon{Daemon: client.New(path)}
	t.Cleanup(looks.Close)
	holder := lockProcess(t, path, "door", "--", "sh", "-c", "read line; echo $LOCKAGENT_TOKEN")
	looks.until(t, "door", func(l *lockagentv1.Lock) bool { return l.GetHeld() == 1 })
	look := func() *lockagentv1.GetResponse {
		t.Helper()
		r, err := looks.Look.Get(t.Context(), &lockagentv1.GetRequest{Kind: readWrite, Name: "door"})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	token := look().GetLock().GetHolders()[0].GetToken()
	filled := fill(t, disk)

	n := 0
	var refused result
	waittest.Until(t, "a request is refused", func() bool { // what fits into the last block is kept
		n++
		refused = call(t, "acquire", "--socket", path, "--ttl", "1h", fmt.Sprint("desk/", n))
		return refused.code != cli.ExitOK
	})
	refused.expect(t, cli.ExitUnavailable, nil, []string{
		"it cannot write its journal; see its log, and whether its disk is full",
	})
	d.stderr.await(t, "what its log says", says("/state/journal.new: no space left on device"))
	awaitRenewal(t, func() time.Duration { return look().GetRemaining().AsDuration() })

	if err := os.Remove(filled); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "a request is granted", func() bool {
		return call(t, "acquire", "--socket", path, "--ttl", "1h", "desk").code == cli.ExitOK
	})
	d.stderr.await(t, "that it goes on", says("the journal is written again"))
	d.signal(t, syscall.SIGKILL)
	waittest.Receive(t, "the end of the process", d.stderr.ended) // while it runs, files of the event log come and go
	if err := os.CopyFS(path+".state", os.DirFS(disk+"/state")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path+".state", 0o700); err != nil {
		t.Fatal(err)
	}
	serveProcess(t, path, nil, "--lease", "1m")
	looks.until(t, "desk", func(l *lockagentv1.Lock) bool { return l.GetHeld() == 1 })
	holder.ended(t, fmt.Sprintln(token))
}

// A daemon that is killed while its disk is full, or cannot be written any more, is followed by one that goes on with
// all that is held. New claims are refused until there is room. Then the next daemon goes on with these, too.
func TestKilledOnADiskThatTakesNothing(t *testing.T) {
	for what, test := range map[string]struct {
		take func(t *testing.T, disk string, do func(string), kill func()) (giveBack func())
		says string
	}{
		"full": {func(t *testing.T, disk string, _ func(string), kill func()) func() {
			filled := fill(t, disk)
			kill()
			return func() {
				if err := os.Remove(filled); err != nil {
					t.Fatal(err)
				}
			}
		}, "no space left on device"},
		"without room for a file": {func(t *testing.T, disk string, _ func(string), kill func()) func() {
			kill()
			var err error
			for n := 0; err == nil; n++ {
				err = os.WriteFile(fmt.Sprint(disk, "/file", n), nil, 0o600)
			}
			if !errors.Is(err, unix.ENOSPC) {
				t.Fatal(err)
			}
			return func() {
				files, err := filepath.Glob(disk + "/file*")
				for _, file := range files {
					err = errors.Join(err, os.Remove(file))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}, "no space left on device"},
		"read-only": {func(_ *testing.T, _ string, do func(string), kill func()) func() {
			kill() // it has files open
			do("mount -o remount,ro .")
			return func() { do("mount -o remount,rw .") }
		}, "read-only file system"},
	} {
		stores := []string{"memory"}
		if what == "full" {
			stores = append(stores, "Redis") // what is wrong with the disk makes no difference for the store
		}
		for _, where := range stores {
			t.Run(what+", locks in "+where, func(t *testing.T) {
				t.Parallel()
				path := socketPath(t)
				disk, do := smallDisk(t, 32<<20)
				flags := []string{"--state-dir", disk + "/state", "--lease", "1m", "--events-max-size", "4MiB"}
				if where == "Redis" {
					flags = append(flags, "--redis", redistest.Start(t).URL())
				}
				d := serveProcess(t, path, nil, flags...)
				looks := &testDaemon{Daemon: client.New(path)}
				t.Cleanup(looks.Close)
				held := func(name string) *lockagentv1.GetResponse {
					t.Helper()
					looks.until(t, name, func(l *lockagentv1.Lock) bool { return l.GetHeld() == 1 })
					r, err := looks.Look.Get(t.Context(), &lockagentv1.GetRequest{Kind: readWrite, Name: name})
					if err != nil {
						t.Fatal(err)
					}
					return r
				}
				kill := func() {
					t.Helper()
					d.signal(t, syscall.SIGKILL)
					waittest.Receive(t, "the end of the process", d.stderr.ended)
				}
				holder := lockProcess(t, path, "door", "--", "sh", "-c", "read line; echo $LOCKAGENT_TOKEN")
				token := held("door").GetLock().GetHolders()[0].GetToken()
				giveBack := test.take(t, disk, do, kill)
				for again := range 2 { // also the one after a daemon that could write nothing
					if again == 1 {
						kill()
					}
					d = serveProcess(t, path, nil, flags...)
					if now := held("door").GetLock().GetHolders()[0].GetToken(); now != token {
						t.Errorf("it is held with the token %d, not %d", now, token)
					}
					apart(t, "acquire", "--socket", path, "--ttl", "1h", "desk").expect(
						t, cli.ExitUnavailable, nil, []string{"it cannot write its journal"},
					)
					d.stderr.await(t, "what its log says", says("/state/journal.new: "+test.says))
					if strings.Contains(d.stderr.String(), "the event log keeps its old limits") {
						t.Error("it speaks of other limits, and nobody has changed them")
					}
					if what == "full" {
						d.stderr.await(t, "that the event log has no room", says(`level=WARN msg="there is no room on the disk`))
					}
					if status, text := page(
						t, unixHTTP(t, path+"-operator.sock"), "http://operator/readyz",
					); status != http.StatusServiceUnavailable || !strings.Contains(text, "journal") {
						t.Errorf("ready: %d, %s", status, text)
					}
				}
				awaitRenewal(t, func() time.Duration { return held("door").GetRemaining().AsDuration() })
				giveBack()
				waittest.Until(t, "a request is granted", func() bool {
					return call(t, "acquire", "--socket", path, "--ttl", "1h", "desk").code == cli.ExitOK
				})
				kill()
				d = serveProcess(t, path, nil, flags...)
				held("desk")
				holder.ended(t, fmt.Sprintln(token))
			})
		}
	}
}

// While a disk is full, holds are renewed without the journal. A daemon that is killed after the deadlines in its
// journal have passed is followed by one that goes on with what is held all the same.
func TestKilledAfterTheDeadlinesInTheJournal(t *testing.T) {
	for where, store := range map[string]func(t *testing.T) []string{
		"memory": func(*testing.T) []string { return nil },
		"Redis":  func(t *testing.T) []string { return []string{"--redis", redistest.Start(t).URL()} },
	} {
		t.Run("locks in "+where, func(t *testing.T) {
			t.Parallel()
			path := socketPath(t)
			disk, _ := smallDisk(t, 32<<20)
			flags := append([]string{"--state-dir", disk + "/state", "--lease", "20s", "--events-max-size", "4MiB"}, store(t)...)
			d := serveProcess(t, path, nil, flags...)
			looks := &testDaemon{Daemon: client.New(path)}
			t.Cleanup(looks.Close)
			look := func() *lockagentv1.GetResponse {
				t.Helper()
				looks.until(t, "door", func(l *lockagentv1.Lock) bool { return l.GetHeld() == 1 })
				r, err := looks.Look.Get(t.Context(), &lockagentv1.GetRequest{Kind: readWrite, Name: "door"})
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			token := func() uint64 { return look().GetLock().GetHolders()[0].GetToken() }
			remaining := func() time.Duration { return look().GetRemaining().AsDuration() }
			holder := lockProcess(t, path, "door", "--", "sh", "-c", "read line; echo $LOCKAGENT_TOKEN")
			before := token()
			filled := fill(t, disk)
			n := 0
			waittest.Until(t, "a request is refused", func() bool { // what fits into the last block is kept
				n++
				return call(t, "acquire", "--socket", path, "--ttl", "1h", fmt.Sprint("desk/", n)).code != cli.ExitOK
			})
			for journaled := time.Now().Add(remaining()); time.Now().Before(journaled); { // or earlier
				awaitRenewal(t, remaining)
			}
			for _, full := range []bool{true, false} {
				d.signal(t, syscall.SIGKILL)
				waittest.Receive(t, "the end of the process", d.stderr.ended)
				if !full {
					if err := os.Remove(filled); err != nil {
						t.Fatal(err)
					}
				}
				d = serveProcess(t, path, nil, flags...)
				if now := token(); now != before {
					t.Errorf("it is held with the token %d, not %d", now, before)
				}
			}
			apart(t, "lock", "--socket", path, "-n", "door", "true").expect(t, cli.ExitFailed, nil, []string{"is held by"})
			holder.ended(t, fmt.Sprintln(before))
		})
	}
}

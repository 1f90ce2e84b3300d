//go:build unix

package machinetest

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

// Stop stops a child of this process until it is sent SIGCONT. It returns when none of its threads runs: whatever the
// child does by itself, it has done before. Only the goroutine of the test may call it.
func Stop(t testing.TB, child *os.Process) {
	t.Helper()
	if err := child.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	err := error(syscall.EINTR)
	for errors.Is(err, syscall.EINTR) {
		_, err = syscall.Wait4(child.Pid, &status, syscall.WUNTRACED, nil)
	}
	if err != nil || !status.Stopped() {
		t.Fatalf("process %d is not stopped: %v, %v", child.Pid, status, err)
	}
}

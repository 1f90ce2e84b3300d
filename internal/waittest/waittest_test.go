package waittest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
)

const inVain = "WAITTEST_TEST_IN_VAIN"

func TestUntil(t *testing.T) {
	asked := 0
	Until(t, "three questions", func() bool { asked++; return asked == 3 })
	if asked != 3 {
		t.Errorf("asked %d times", asked)
	}
}

func TestReceive(t *testing.T) {
	c := make(chan int, 1)
	c <- 7
	if got := Receive(t, "the number", c); got != 7 {
		t.Errorf("received %d", got)
	}
	close(c)
	if got := Receive(t, "the end", c); got != 0 {
		t.Errorf("received %d of a closed channel", got)
	}
}

// waiting blocks until something is received.
//
//go:noinline
func waiting(from <-chan int) { <-from }

// TestInVain is the process of TestWaitsEnd.
func TestInVain(t *testing.T) {
	how := os.Getenv(inVain)
	if how == "" {
		return
	}
	never := make(chan int)
	defer close(never)
	go waiting(never)
	t.Cleanup(func() { fmt.Println("cleaned up") })
	if how == "in a bubble" {
		synctest.Test(t, func(t *testing.T) { Receive(t, "the pig", make(chan int)) })
		return
	}
	if how == "until" {
		Until(t, "pigs to fly", func() bool { return false })
	}
	Receive(t, "the pig", never)
}

func TestWaitsEnd(t *testing.T) {
	for how, says := range map[string]string{
		"until": "gave up waiting: pigs to fly", "receive": "gave up waiting: the pig",
		"in a bubble": "gave up waiting: the pig",
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestInVain$", "-test.timeout="+(margin+1e9).String())
			cmd.Env = append(os.Environ(), inVain+"="+how)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Error("the test passed")
			}
			wants := []string{says, "waittest.waiting(", "cleaned up", "--- FAIL: TestInVain"}
			if how == "in a bubble" { // go test has time left
				wants[1] = "--- FAIL: TestInVain"
			}
			for _, want := range wants {
				if !strings.Contains(string(out), want) {
					t.Errorf("its output lacks %q:\n%s", want, out)
				}
			}
		})
	}
}

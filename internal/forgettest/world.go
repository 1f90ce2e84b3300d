package forgettest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/lockagent/lockagent/internal/machinetest"
	"github.com/lockagent/lockagent/internal/waittest"
)

// world is one run: the servers, the agents that use them, and what happens to them.
type world struct {
	testing.TB
	agents  [agents]*process
	history history
}

// process is an agent, as the test sees it.
type process struct {
	cmd   *exec.Cmd
	in    io.Closer // its end ends the load
	lines chan []byte
}

// begin starts the agents, and returns when both work.
func begin(t testing.TB, of task) *world {
	t.Helper()
	w := &world{TB: t}
	of.Run = fmt.Sprintf("-%x", rand.Uint32())
	for of.Agent = range w.agents {
		w.agents[of.Agent] = startProcess(t, of)
	}
	for _, p := range w.agents {
		p.hear(t)
	}
	return w
}

func startProcess(t testing.TB, of task) *process {
	t.Helper()
	text, err := json.Marshal(of)
	must(t, err)
	cmd := exec.Command(os.Args[0])
	// With the race detector, a process would sleep for a second before it ends.
	cmd.Env = append(os.Environ(), agentVariable+"="+string(text), "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = t.Output()
	// A stopped process group of its own is ended by the system when this process is gone.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	p := &process{cmd: cmd, in: in, lines: make(chan []byte, 2)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(p.lines)
		for r := bufio.NewReader(out); ; {
			line, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			p.lines <- line
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-read
		_ = cmd.Wait()
	})
	return p
}

// hear returns the next line that the process says.
func (p *process) hear(t testing.TB) []byte {
	t.Helper()
	line := waittest.Receive(t, "an agent to say something", p.lines)
	if line == nil {
		t.Fatal("an agent has ended")
	}
	return line
}

// work lets the agents work for a time.
func (w *world) work(d time.Duration) { time.Sleep(d) }

// outage is one time that the store forgets. fail returns when the new server answers.
func (w *world) outage(fail func()) {
	w.Helper()
	o := Outage{Began: now()}
	fail()
	o.Answered = now()
	w.history.outages = append(w.history.outages, o)
}

// freeze stops an agent while something happens.
func (w *world) freeze(agent int, meanwhile func()) {
	w.Helper()
	f := Freeze{Agent: agent, From: now()}
	machinetest.Stop(w, w.agents[agent].cmd.Process)
	meanwhile()
	f.To = now()
	must(w, w.agents[agent].cmd.Process.Signal(syscall.SIGCONT))
	w.history.freezes = append(w.history.freezes, f)
}

// end ends the load, and returns all that is known of the run.
func (w *world) end() *history {
	w.Helper()
	h := &w.history
	h.ended = now()
	for _, p := range w.agents {
		must(w, p.in.Close())
	}
	for _, p := range w.agents {
		var says account
		must(w, json.Unmarshal(p.hear(w), &says))
		h.holds = append(h.holds, says.Holds...)
		h.stuck += says.Stuck
		h.refused = sum(h.refused, says.Refused)
	}
	return h
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/lockagent/lockagent/bench/contender"
	"github.com/lockagent/lockagent/channelapi"
)

// workerVariable has the task of a process that this program started from itself.
const workerVariable = "LOCKAGENT_BENCH_TASK"

// task is what a worker process is to do. Its conversation goes over its standard
// input and output, a line of JSON each way.
type task struct {
	Role      string // see workerRoles
	Contender string
	Addr      string
	Name      string // of the lock

	// For a contended lock:
	Goroutines   int
	Window       time.Duration
	Inside       time.Duration
	Deadline     time.Duration // of each call, if it is not 0
	Guard        string        // path of the guard's file
	Shared       bool          // the guard has nothing to see
	Grants       int           // hand-off budget, if it is not the default
	GrantsWithin time.Duration
	LockKind     string // of lockagent, if it is not plain

	// For locks that are kept, or used once:
	Locks int

	// Waste is what each cycle of lockagent wastes.
	Waste time.Duration
}

var workerRoles = map[string]func(context.Context, *task, *conversation) error{
	"contend":    contendWorker,
	"handoff":    handoffWorker,
	"floor-wake": floorWakeWorker,
	"floor-hear": floorHearWorker,
	"relay":      relayWorker,
	"relay-end":  relayEndWorker,
	"keep":       keepWorker,
	"once":       onceWorker,
	"hot":        hotWorker,
	"empty":      emptyWorker,
	"streams":    streamsWorker,
}

// runWorker is the main function of a worker process. It ends when the process that
// started it does.
func runWorker(description string) error {
	var t task
	if err := json.Unmarshal([]byte(description), &t); err != nil {
		return err
	}
	role, ok := workerRoles[t.Role]
	if !ok {
		return fmt.Errorf("no role %q", t.Role)
	}
	return role(context.Background(), &t, &conversation{in: json.NewDecoder(os.Stdin), out: json.NewEncoder(os.Stdout)})
}

// open opens the contender of a task.
func (t *task) open(ctx context.Context) (contender.Contender, error) {
	kind, ok := contender.Named(t.Contender)
	if !ok {
		return nil, fmt.Errorf("no contender %q", t.Contender)
	}
	var c contender.Contender
	var err error
	if t.Grants != 0 || t.GrantsWithin != 0 {
		c, err = contender.OpenAgent(
			ctx, t.Addr, channelapi.Config{HandOffGrants: t.Grants, HandOffTime: t.GrantsWithin}, nil,
		)
	} else {
		c, err = kind.Open(ctx, t.Addr)
	}
	if err != nil {
		return nil, err
	}
	if agent, ok := c.(*contender.Agent); ok && t.LockKind != "" {
		if err := agent.Use(t.LockKind); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// conversation is what two processes say to each other.
type conversation struct {
	in  *json.Decoder
	out *json.Encoder
}

func (c *conversation) say(v any) error { return c.out.Encode(v) }

func (c *conversation) hear(v any) error { return c.in.Decode(v) }

// child is a process that ends when its input does.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

// startChild starts a process. The end of this process kills it.
func startChild(cmd *exec.Cmd) (c child, in io.Writer, out io.Reader, err error) {
	cmd.SysProcAttr = dieWithParent()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return child{}, nil, nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return child{}, nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return child{}, nil, nil, err
	}
	return child{cmd, stdin}, stdin, stdout, nil
}

// worker is a process that does a task.
type worker struct {
	conversation
	child
}

// startWorker starts a process of this program. The end of ctx kills it, and so does
// the end of this process.
func startWorker(ctx context.Context, t task) (*worker, error) {
	description, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	// With the race detector, a process would sleep for a second before it ends.
	cmd.Env = append(os.Environ(), workerVariable+"="+string(description), "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	c, in, out, err := startChild(cmd)
	if err != nil {
		return nil, err
	}
	return &worker{conversation{json.NewDecoder(bufio.NewReader(out)), json.NewEncoder(in)}, c}, nil
}

// silence is how long a process may say nothing when it should: more than any task
// takes.
const silence = 4 * time.Minute

// hear waits for what the process says. One that is stuck is made to print where, and
// to end.
func (w *worker) hear(v any) error {
	stuck := time.AfterFunc(silence, func() { _ = w.cmd.Process.Signal(syscall.SIGQUIT) })
	defer stuck.Stop()
	return w.conversation.hear(v)
}

// ask gives an order and waits until it is done.
func (w *worker) ask(o order, m *moment) error {
	if err := w.say(o); err != nil {
		return err
	}
	if err := w.hear(m); err != nil {
		return err
	}
	if m.Error != "" {
		return fmt.Errorf("%s: %s", o.What, m.Error)
	}
	return nil
}

// dismiss tells the process that nothing more will be said. It then ends by itself.
func (c child) dismiss() { _ = c.stdin.Close() }

// end dismisses the process and waits until it is gone. One that does not end is
// killed.
func (c child) end() {
	c.dismiss()
	kill := time.AfterFunc(time.Second, func() { _ = c.cmd.Process.Kill() })
	defer kill.Stop()
	_ = c.cmd.Wait() // killed is as good
}

// quit kills the process at once: for one that would take long to clean up what goes
// with the server anyway.
func (c child) quit() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

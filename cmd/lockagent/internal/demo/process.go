package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/lockagent/lockagent"
)

// partingTime is how long a process may take to end after it was told to, before
// it is killed. It is longer than the bounds of everything that it waits for.
const partingTime = time.Minute

// process is an agent in a process of its own.
type process struct {
	hub    *hub
	seat   *seat
	index  int
	cmd    *exec.Cmd
	stdin  io.Closer
	exited chan struct{} // closed when it has
	err    error         // of the exit; read it after exited
	agent  lockagent.AgentID
}

// startProcess starts cmd and tells it what to do.
func startProcess(cmd *exec.Cmd, h *hub, inv invitation) (*process, error) {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{hub: h, seat: h.seats[inv.Index], index: inv.Index, cmd: cmd, stdin: stdin, exited: make(chan struct{})}
	go func() {
		defer close(p.exited)
		p.err = cmd.Wait()
	}()
	inv.Log.Logger = nil                   // the process has its own
	_ = json.NewEncoder(stdin).Encode(inv) // it fails if the process has ended, which await tells
	return p, nil
}

// await returns when the process could begin.
func (p *process) await(ctx context.Context) error {
	select {
	case p.agent = <-p.seat.ready:
		return nil
	case <-p.exited:
		if ctx.Err() != nil { // an interrupt is for all of the group
			return context.Cause(ctx)
		}
		if err := p.failure(); err != nil {
			return err
		}
		return fmt.Errorf("process %d ended before it began", p.cmd.Process.Pid)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *process) id() lockagent.AgentID { return p.agent }

// run has the process work until ctx ends, and returns when it has ended.
func (p *process) run(ctx context.Context) error {
	if ctx.Err() == nil {
		close(p.seat.begin)
	}
	select {
	case <-ctx.Done():
	case <-p.exited:
	}
	_ = p.stdin.Close() // that is how it is told; fails if it has ended by itself
	select {
	case <-p.exited:
	case <-time.After(partingTime):
		err := p.cmd.Process.Kill()
		<-p.exited
		return errors.Join(fmt.Errorf("process %d did not end within %v and was killed", p.cmd.Process.Pid, partingTime), err)
	}
	return p.failure()
}

func (p *process) failure() error {
	if p.err == nil {
		return nil
	}
	return fmt.Errorf("process %d: %w", p.cmd.Process.Pid, p.err)
}

func (p *process) stats() Stats { return p.hub.stats(p.index) }

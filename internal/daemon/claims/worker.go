package claims

import (
	"errors"
	"fmt"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/daemon/quota"
	"github.com/lockagent/lockagent/internal/daemon/refusal"
)

// worker is a process that works under a claim, such as the command of lockagent lock. When the client of the claim has
// gone for good, the claim lasts until its workers have ended.
type worker struct {
	PID     int    `json:"pid"`
	Started uint64 `json:"started"` // as Client.Started
}

// Bind names the processes that work under a claim, in place of those that were named before. They must be of the
// client's user, unless the client is root.
func (b *Book) Bind(by Client, id, secret string, pids []int) error {
	if len(pids) > refusal.MaxWorkers {
		return badWorkers("%d processes, and the limit is %d", len(pids), refusal.MaxWorkers)
	}
	if err := sameNumbers(by); err != nil {
		return aboutWorkers(err)
	}
	workers := make([]worker, 0, len(pids))
	for _, pid := range pids {
		if pid <= 0 {
			return badWorkers("%d is no process", pid)
		}
		w := worker{pid, b.started(pid)} // if the number is given to another process now, the worker has ended
		p, err := bind(pid, by)
		if err != nil {
			return aboutWorkers(err)
		}
		p.close()
		workers = append(workers, w)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c, err := b.living(id, secret)
	switch {
	case err != nil:
		return err
	case b.left:
		return lockagent.ErrClosed
	case c.Detach || c.detached:
		return badWorkers("the claim is detached, or shall be; use for_pid")
	}
	c.workers = workers
	c.save(false, 0)
	b.changed(c.Name)
	if err := b.cfg.Journal.Flush(); err != nil {
		return fmt.Errorf("%w (%w)", refusal.ErrJournal, err)
	}
	return nil
}

// workerPIDs are the numbers of the workers. The mutex must be held.
func (c *claim) workerPIDs() (pids []int) {
	for _, w := range c.workers {
		pids = append(pids, w.PID)
	}
	return pids
}

// badWorkers is the error of a request for workers that a claim cannot have.
func badWorkers(format string, args ...any) error {
	return &lockagent.OptionError{Option: "pids", Reason: fmt.Sprintf(format, args...)}
}

// aboutWorkers is the error of a process that cannot be watched, as one of a worker.
func aboutWorkers(err error) error {
	if bad, ok := errors.AsType[*lockagent.OptionError](err); ok {
		return badWorkers("%s", bad.Reason)
	}
	return err
}

// passOn detaches a hold whose client has gone for good, and binds it to one of its workers. It reports false if none
// of them is left. The mutex must be held.
func (c *claim) passOn() bool {
	if c.given || c.book.left || c.state != Held && c.state != Doubtful {
		return false
	}
	for _, w := range c.workers {
		if !c.bindAgain(w.PID, w.Started) {
			continue
		}
		if c.expiry != nil {
			c.expiry.Stop()
			c.expiry = nil
		}
		c.detached, c.resumed, c.ForPID, c.boundStart = true, false, w.PID, w.Started
		c.save(true, 0)
		c.book.changed(c.Name)
		return true
	}
	return false
}

// bindAgain binds the claim to a process that was looked at before. It reports false if that has ended. The mutex must
// be held.
func (c *claim) bindAgain(pid int, started uint64) bool {
	p, err := openProcess(pid)
	switch {
	case errors.Is(err, refusal.ErrQuota):
		// Nobody knows whether the process has ended, so the claim goes on until somebody releases it.
		return true
	case err != nil:
		return false
	case p.ended() || c.book.started(pid) != started: // another process may have the number by now
		p.close()
		return false
	}
	c.bound = p
	c.book.cfg.Quotas.Add(c.Client.UID, quota.Processes)
	p.watch(func() { c.processEnded(p) })
	return true
}

// processEnded ends the claim whose process has ended, unless another worker is left.
func (c *claim) processEnded(p *process) {
	c.book.mu.Lock()
	if c.bound == p {
		c.unbind().close()
	}
	goesOn := c.passOn()
	c.book.mu.Unlock()
	if !goesOn {
		c.giveUp(0)
	}
}

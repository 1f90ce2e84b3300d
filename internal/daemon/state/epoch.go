//go:build linux

package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/internal/bootclock"
)

// epoch says how often an agent has started, and what is left of the leases that are in no journal.
type epoch struct {
	Agent lockagent.AgentID `json:"agent"`
	Epoch uint64            `json:"epoch"`

	// Boot is the boot of the machine in which the leases count. What another one has left is over.
	Boot string `json:"boot,omitempty"`
	// Lease is as long as any that the agent has given out of its memory, or longer.
	Lease time.Duration `json:"lease,omitempty"`
	// Free is when the leases of all agents before are over, on the clock of the boot.
	Free time.Duration `json:"free,omitempty"`
}

// free is when all leases are over of which an agent without a journal cannot know.
func (e *epoch) free(now time.Duration) time.Duration {
	switch {
	case e.Boot != bootclock.ID():
		return 0
	case e.Lease == 0:
		return e.Free
	}
	return max(e.Free, now+e.Lease)
}

// epoch reads the file. It is empty if there is none.
func (d *Dir) epoch() (last epoch, err error) {
	name := filepath.Join(d.path, epochName)
	text, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return epoch{}, nil
	case err != nil:
		return epoch{}, &Error{d.path, hint(d.path, err)}
	}
	if err := json.Unmarshal(text, &last); err != nil {
		return epoch{}, &Error{d.path, fmt.Errorf("%s is damaged: %w; restore the file, or move the whole directory away: then this daemon is a new agent, "+
			"and knows nothing of the leases of the old one; with the store in memory, end all programs that have locks before", name, err)}
	}
	return last, nil
}

// setEpoch replaces the file as a whole, and syncs it: an event log must never see a number twice.
func (d *Dir) setEpoch(e epoch) error {
	if err := replace(filepath.Join(d.path, epochName), e); err != nil {
		return &Error{d.path, hint(d.path, err)}
	}
	return nil
}

// Leases is what a daemon knows of the leases that are in no journal.
type Leases struct {
	// Lost is the agent whose journal is missing, or empty.
	Lost lockagent.AgentID
	// Left is for how long leases may go on that were given out of the memory of a daemon, and that no journal tells of.
	Left time.Duration
}

// Leases tells of the leases that are in no journal. agent is that of the journal, or empty without one.
func (d *Dir) Leases(agent lockagent.AgentID) (Leases, error) {
	last, err := d.epoch()
	if err != nil {
		return Leases{}, err
	}
	var l Leases
	switch {
	case agent == "":
		l.Lost = last.Agent
	case agent == last.Agent:
		last.Lease = 0 // the journal tells of its own
	}
	now := bootclock.Now()
	l.Left = max(0, last.free(now)-now)
	return l, nil
}

// NextEpoch counts a start of the agent, and returns its number, of which the first is 1. Another agent begins anew. What may be left of the leases of the
// agent before is kept for it.
func (d *Dir) NextEpoch(agent lockagent.AgentID) (uint64, error) {
	last, err := d.epoch()
	if err != nil {
		return 0, err
	}
	if last.Agent != agent {
		last = epoch{Agent: agent, Boot: bootclock.ID(), Free: last.free(bootclock.Now())}
	}
	last.Epoch++
	return last.Epoch, d.setEpoch(last)
}

// Give notes that the agent is about to give leases up to a length out of its memory. A daemon that does not find the journal waits for so long. The
// agent must have an epoch.
func (d *Dir) Give(lease time.Duration) error {
	last, err := d.epoch()
	if err != nil {
		return err
	}
	if boot := bootclock.ID(); last.Boot != boot {
		last.Boot, last.Lease, last.Free = boot, 0, 0
	}
	last.Lease = max(last.Lease, lease)
	return d.setEpoch(last)
}

//go:build !linux

package claims

import "github.com/lockagent/lockagent"

// process is never there: only Linux has descriptors of processes.
type process struct{}

func sameNumbers(Client) error { return nil }

func openProcess(int) (*process, error) {
	return nil, &lockagent.OptionError{Option: "for_pid", Reason: "this system cannot watch processes"}
}

func bind(pid int, _ Client) (*process, error) {
	if pid == 0 {
		return nil, nil //nolint:nilnil // a nil process is none
	}
	return openProcess(pid)
}

func (p *process) ended() bool  { return true }
func (p *process) watch(func()) {}
func (p *process) close()       {}

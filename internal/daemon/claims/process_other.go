//go:build !linux

package claims

import "github.com/lockagent/lockagent"

// process is never there: only Linux has descriptors of processes.
type process struct{}

func sameNumbers(Client) error { return nil }

func bind(pid int, _ Client) (*process, error) {
	if pid == 0 {
		return nil, nil //nolint:nilnil // a nil process is none
	}
	return nil, &lockagent.OptionError{Option: "for_pid", Reason: "this system cannot watch processes"}
}

func (p *process) watch(func()) {}
func (p *process) close()       {}

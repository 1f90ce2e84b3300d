//go:build !linux

package servecmd

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
)

// NewServe says what this system lacks: the daemon needs to know who connects, and when processes end.
func NewServe() *cobra.Command {
	return &cobra.Command{
		Use:    "serve",
		Short:  "Hold locks for all programs of this host, which is Linux",
		Hidden: true,
		RunE: func(*cobra.Command, []string) error {
			return &cli.Failure{Code: cli.ExitFailed, Err: errors.New("the daemon needs Linux")}
		},
	}
}

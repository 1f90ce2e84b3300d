package main

import (
	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/demo"
)

const demoAgentVerb = "demo-agent"

// newDemoAgent makes the verb that demo starts its processes with.
func newDemoAgent() *cobra.Command {
	return &cobra.Command{
		Use:    demoAgentVerb,
		Short:  "Be one agent of a demo that another process runs",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo.Join(cmd.Context(), cmd.InOrStdin(), newLogger(cmd.ErrOrStderr()))
		},
	}
}

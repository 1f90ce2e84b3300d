package eventscmd

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
)

// lookFlags are the flags of each verb that shows what the event log says of locks.
type lookFlags struct {
	source
	format  string
	formats []string
}

// addFlags adds them behind those that the verb has of its own.
func (f *lookFlags) addFlags(cmd *cobra.Command, formats ...string) {
	f.formats = append([]string{"text", "json"}, formats...)
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&f.format, "format", "text", "`form` of the output: "+strings.Join(f.formats, " or "))
	f.source.addFlags(cmd)
}

func (f *lookFlags) check(cmd *cobra.Command) error {
	if err := cli.CheckFormat(cmd, f.format, f.formats...); err != nil {
		return err
	}
	return f.source.check(cmd)
}

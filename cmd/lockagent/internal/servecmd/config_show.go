package servecmd

import (
	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/internal/config"
)

func newConfigShow() *cobra.Command {
	var format cli.ListFlag
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show every setting, and where its value comes from",
		Long: `Show every setting, and where its value comes from. It takes the flags of lockagent
serve, so that they can be tried out. Passwords are not shown.`,
		Example: `  lockagent config show
  lockagent config show --redis ` + cli.ExampleRedis + ` --format json
  lockagent config show --format text | cut -f 1,2`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := format.Check(cmd); err != nil {
				return err
			}
			settings, err := loadSettings(cmd)
			if err != nil {
				return err
			}
			return format.Write(cmd, listSettings(settings))
		},
	}
	format.Add(cmd)
	addSettings(cmd)
	return cmd
}

// settingJSON is the JSON of a setting.
type settingJSON struct {
	Key   string            `json:"key"`
	Value string            `json:"value"` // without passwords
	From  config.OriginKind `json:"from"`
	At    string            `json:"at"`   // the flag, the variable, or the file and the line; empty for a default
	Live  bool              `json:"live"` // a reload is enough for a change
}

func listSettings(settings *config.Config) cli.List {
	l := cli.List{Name: "settings", Columns: []string{"SETTING", "VALUE", "FROM"}}
	for _, v := range settings.Values() {
		at := v.Origin.String()
		view := settingJSON{Key: v.Key, Value: v.Text, From: v.Origin.Kind, Live: v.Setting.Live}
		if view.From != config.FromDefault {
			view.At = at
		}
		l.Rows = append(l.Rows, cli.Row{Cells: []string{v.Key, v.Text, at}, View: view})
	}
	return l
}

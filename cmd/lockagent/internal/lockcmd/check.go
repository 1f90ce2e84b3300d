//go:build linux

package lockcmd

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/client"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// NewCheck makes the verb check.
func NewCheck() *cobra.Command {
	var f client.Flag
	var kind client.KindFlag
	cmd := &cobra.Command{
		Use:   "check NAME TOKEN",
		Short: "Say whether a token is still that of the lock's holder",
		Long: `Check says whether a client of this daemon holds the lock with a token. The exit code is 0 if so. It is for
resources that cannot compare tokens themselves. It answers for now, and not for the next moment.`,
		Example:           `  lockagent check orders/42 "$LOCKAGENT_TOKEN" || exit`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: client.CompleteLockOnce,
		RunE: func(cmd *cobra.Command, args []string) error {
			const try = "lockagent check orders/42 7"
			if len(args) != 2 {
				return cli.Usage(try, "check takes the name of one lock and a token")
			}
			name, err := cli.ParseLock(args[0], try)
			if err != nil {
				return err
			}
			token, err := strconv.ParseUint(args[1], 10, 64)
			if err != nil || token == 0 {
				return cli.Usage(try, "%q is no token; it is a number", args[1])
			}
			daemon, err := f.Open(cmd)
			if err != nil {
				return err
			}
			defer daemon.Close()
			var r *lockagentv1.CheckResponse
			err = daemon.OfKind(cmd.Context(), name, kind, func(is lockagentv1.Kind) (err error) {
				r, err = daemon.Locks.Check(
					cmd.Context(), &lockagentv1.CheckRequest{Name: string(name), Kind: is, Token: token},
				)
				return err
			})
			switch {
			case err != nil:
				return err
			case r.GetCurrent():
				return nil
			case r.GetHeld():
				return &cli.Failure{
					Code: cli.ExitLost,
					Err:  fmt.Errorf("%s is held with another token, by %s", name, daemon.Holder(cmd.Context(), name, r.GetHolder())),
				}
			}
			return &cli.Failure{Code: cli.ExitLost, Err: fmt.Errorf("nobody holds %s", name)}
		},
	}
	kind.Add(cmd)
	f.Add(cmd)
	return cmd
}

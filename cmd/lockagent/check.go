//go:build linux

package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

func newCheck() *cobra.Command {
	var f daemonFlag
	var kind kindFlag
	cmd := &cobra.Command{
		Use:   "check NAME TOKEN",
		Short: "Say whether a token is still that of the lock's holder",
		Long: `Check says whether a client of this daemon holds the lock with a token. The exit code is 0 if so. It is for
resources that cannot compare tokens themselves. It answers for now, and not for the next moment.`,
		Example:           `  lockagent check orders/42 "$LOCKAGENT_TOKEN" || exit`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeLockOnce,
		RunE: func(cmd *cobra.Command, args []string) error {
			const try = "lockagent check orders/42 7"
			if len(args) != 2 {
				return usage(try, "check takes the name of one lock and a token")
			}
			name, err := parseLock(args[0], try)
			if err != nil {
				return err
			}
			token, err := strconv.ParseUint(args[1], 10, 64)
			if err != nil || token == 0 {
				return usage(try, "%q is no token; it is a number", args[1])
			}
			daemon, err := f.open(cmd)
			if err != nil {
				return err
			}
			defer daemon.close()
			var r *lockagentv1.CheckResponse
			err = daemon.ofKind(cmd.Context(), name, kind, func(is lockagentv1.Kind) (err error) {
				r, err = daemon.locks.Check(
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
				return &failure{code: exitLost, err: fmt.Errorf("%s is held with another token, by %s", name, daemon.holder(cmd.Context(), name, r.GetHolder()))}
			}
			return &failure{code: exitLost, err: fmt.Errorf("nobody holds %s", name)}
		},
	}
	kind.add(cmd)
	f.add(cmd)
	return cmd
}

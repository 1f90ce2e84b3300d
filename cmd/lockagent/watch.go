//go:build linux

package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

func newWatch() *cobra.Command {
	var f daemonFlag
	var format listFlag
	cmd := &cobra.Command{
		Use:   "watch [PATTERN]",
		Short: "Follow the locks that programs of this host hold or wait for",
		Long: `Follow the locks as ls shows them: first as they are, and then each one that changes. A lock that nobody uses any
more is free. Whoever reads too slowly misses changes, and never how a lock is in the end.`,
		Example: "  lockagent watch 'orders/**' --format jsonl",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			pattern, err := patternOf(cmd, args)
			if err == nil {
				err = format.check(cmd)
			}
			if err != nil {
				return err
			}
			if format.form == "json" || format.form == "table" {
				return usage("lockagent watch --format jsonl", "--format must be text, jsonl or go-template=TEMPLATE, not %q: a watch has no end", format.form)
			}
			if format.form == "" {
				format.form = "text" // rather than a table for each line
			}
			daemon, err := f.open(cmd)
			if err != nil {
				return err
			}
			defer daemon.close()
			events, err := daemon.look.Watch(cmd.Context(), &lockagentv1.WatchRequest{Pattern: pattern})
			if err != nil {
				return daemon.failed(err)
			}
			defer func() { _ = events.Close() }()
			for events.Receive() {
				l := events.Msg().GetLock()
				if l == nil {
					continue
				}
				v := viewOf(l)
				if err := format.write(cmd, list{rows: []row{v.row(time.Now())}}); err != nil {
					return err
				}
			}
			if cmd.Context().Err() != nil || errors.Is(events.Err(), context.Canceled) {
				return nil // by an interrupt, as it is meant to end
			}
			return daemon.failed(events.Err())
		},
	}
	format.add(cmd)
	f.add(cmd)
	return cmd
}

package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/manual"
)

func newMan() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "man [VERB]",
		Short: "Print a page of the manual",
		Long: `Print the page of the manual about a verb, or about lockagent. With --dir, write all pages into a directory, for
packages and for man -M.`,
		Example: "  lockagent man lock | man -l -\n  lockagent man --dir /usr/local/share/man/man1",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if dir != "" {
				if len(args) > 0 {
					return usage("lockagent man --dir "+shellWord(dir), "--dir writes all pages; leave %q out", args[0])
				}
				return writePages(cmd.Root(), dir)
			}
			about, err := verbOf(cmd.Root(), args)
			if err != nil {
				return err
			}
			_, err = io.WriteString(cmd.OutOrStdout(), pageOf(about))
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "`directory` for all pages; it is made if it is missing")
	return cmd
}

// verbOf is the command that a verb names, or root for none.
func verbOf(root *cobra.Command, args []string) (*cobra.Command, error) {
	cmd, rest, err := root.Find(args)
	if err != nil || len(rest) > 0 {
		return nil, usage("lockagent --help", "there is no verb %q", strings.Join(args, " "))
	}
	return cmd, nil
}

func pageOf(cmd *cobra.Command) string {
	return manual.Page(cmd, "lockagent "+moduleVersion(), exitManual())
}

func writePages(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for cmd := range manual.Commands(root) {
		if err := os.WriteFile(filepath.Join(dir, manual.Name(cmd)+".1"), []byte(pageOf(cmd)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

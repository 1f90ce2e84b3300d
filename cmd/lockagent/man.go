package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/manual"
)

func newMan() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "man [VERB|PAGE]",
		Short: "Print a page of the manual",
		Long: `Print the page of the manual about a verb, or about lockagent. Other pages are lockagent-exit, about exit
codes, lockagent-recipes, and lockagent.yaml, about the settings of the daemon. With --dir, write all pages into a
directory, for packages and for man -M.`,
		Example: "  lockagent man lock | man -l -\n  lockagent man lockagent.yaml | man -l -\n" +
			"  lockagent man --dir /usr/local/share/man",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if dir != "" {
				if len(args) > 0 {
					return cli.Usage("lockagent man --dir "+cli.ShellWord(dir), "--dir writes all pages; leave %q out", args[0])
				}
				return writePages(cmd.Root(), dir)
			}
			var page string
			if d := documentOf(args); d != nil {
				page = documentPage(d)
			} else {
				about, err := verbOf(cmd.Root(), args)
				if err != nil {
					return err
				}
				page = pageOf(about)
			}
			_, err := io.WriteString(cmd.OutOrStdout(), page)
			return err
		},
	}
	cmd.Flags().StringVar(
		&dir, "dir", "", "`directory` for all pages, each in the directory of its section; it is made if it is missing",
	)
	return cmd
}

// verbOf is the command that a verb names, or root for none.
func verbOf(root *cobra.Command, args []string) (*cobra.Command, error) {
	cmd, rest, err := root.Find(args)
	if err != nil || len(rest) > 0 {
		return nil, cli.Usage("lockagent --help", "there is no verb %q", strings.Join(args, " "))
	}
	return cmd, nil
}

func manualVersion() string { return "lockagent " + cli.ModuleVersion() }

func pageOf(cmd *cobra.Command) string {
	return manual.Page(cmd, manualVersion(), exitManual(exitVerb(cmd)), alsoOf(cmd)...)
}

// writePages writes all pages into the directories of their sections.
func writePages(root *cobra.Command, dir string) error {
	pages := make(map[string]string)
	for cmd := range manual.Commands(root) {
		pages[manual.File(cmd)] = pageOf(cmd)
	}
	for _, d := range documents() {
		pages[d.File()] = documentPage(d)
	}
	for name, page := range pages {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(page), 0o644); err != nil {
			return err
		}
	}
	return nil
}

package main

import (
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// checkFormat checks the value of --format, of which the first is the default.
func checkFormat(cmd *cobra.Command, format string, known ...string) error {
	if slices.Contains(known, format) {
		return nil
	}
	return usage(again(cmd)+" --format "+known[len(known)-1], "--format must be %s, not %q", strings.Join(known, " or "), format)
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

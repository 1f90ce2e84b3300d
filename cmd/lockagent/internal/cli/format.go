package cli

import (
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// CheckFormat checks the value of --format, of which the first is the default.
func CheckFormat(cmd *cobra.Command, format string, known ...string) error {
	if slices.Contains(known, format) {
		return nil
	}
	return Usage(
		Again(cmd)+" --format "+known[len(known)-1], "--format must be %s, not %q", strings.Join(known, " or "), format,
	)
}

// WriteLines writes each of some values as a line of JSON.
func WriteLines[T any](w io.Writer, all []T) error {
	e := json.NewEncoder(w)
	for i := range all {
		if err := e.Encode(&all[i]); err != nil {
			return err
		}
	}
	return nil
}

// WriteJSON writes a value as JSON for people, on several lines.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// JSONVersion is the version of the JSON that the readers of the event log write. Fields are only
// added to it.
const JSONVersion = 1

package cli

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockagent/lockagent/internal/nearest"
)

// FlagError has the errors of flags carry the command that would have worked.
func FlagError(cmd *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name, dashes := unknown.GetSpecifiedName(), "--"
		if unknown.GetSpecifiedShortnames() != "" {
			dashes = "-"
		}
		try := ""
		if near := nearestFlag(cmd, name); near != nil {
			try = Example(cmd, near)
		}
		if form := cmd.Flags().Lookup("format"); form != nil && (name == "json" || dashes+name == "-f") {
			try = WithFlag(cmd, "--format "+jsonForm.FindString(form.Usage))
		}
		if try != "" {
			return Usage(try, "%q has no flag %s%s", cmd.CommandPath(), dashes, name)
		}
	}
	if missing, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return Usage(Example(cmd, missing.GetFlag()), "--%s wants a value", missing.GetFlag().Name)
	}
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		f := bad.GetFlag()
		try := Example(cmd, f)
		if _, err := strconv.ParseFloat(bad.GetValue(), 64); err == nil && f.Value.Type() == "duration" {
			try = WithFlag(cmd, "--"+f.Name+" "+bad.GetValue()+"s")
		}
		return Usage(try, "--%s wants %s, not %q", f.Name, KindOf(f), bad.GetValue())
	}
	return Usage(cmd.CommandPath()+" --help", "%w", err)
}

// jsonForm finds what a verb calls JSON in the usage of its --format.
var jsonForm = regexp.MustCompile(`\bjsonl?\b`)

// KindOf says what a flag takes, for people.
func KindOf(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "int", "int32", "int64", "uint64":
		return "a whole number"
	case "stringSlice":
		return "a list such as a,b"
	case "stringToString":
		return "a name and a text such as ticket=7"
	case "duration":
		return "a duration such as 500ms, 5s or 2m"
	case "bool":
		return "true or false"
	case "time to wait":
		return "a duration such as 5s, or seconds such as 2.5"
	case "reaction":
		return "term, kill, another signal such as INT, or ignore"
	case "exit code":
		return "an exit code between 0 and 255"
	}
	return "a " + f.Value.Type()
}

// Example is a command with a flag as it can be used.
func Example(cmd *cobra.Command, f *pflag.Flag) string {
	text := "--" + f.Name
	what, _ := pflag.UnquoteUsage(f)
	switch {
	case f.Value.Type() == "bool":
	case f.DefValue == "0":
		text += " 1"
	case f.DefValue == "0s", f.Value.Type() == "time to wait", f.DefValue == "" && what == "time":
		text += " 10m"
	case f.DefValue != "" && f.DefValue != "[]":
		text += " " + f.DefValue
	default:
		text += " " + strings.ToUpper(what)
	}
	if _, place := f.Annotations[placeFlag]; place {
		return WithPlace(cmd, text)
	}
	return WithFlag(cmd, text)
}

// nearestFlag is the flag whose name is most like the given one, or nil if none is.
func nearestFlag(cmd *cobra.Command, name string) *pflag.Flag {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return cmd.Flags().Lookup(nearest.Of(name, slices.Values(names)))
}

// ConnectionFlag adds a flag for an address.
func ConnectionFlag(cmd *cobra.Command, value *string, name, usage string) {
	cmd.Flags().StringVar(value, name, "", usage)
	MarkPlace(cmd, name)
	FromEnvironment(cmd, name)
}

// FromEnvironment has the environment set the flags of these names that are not given.
// What others must not see does not belong on a command line.
func FromEnvironment(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		f := cmd.Flags().Lookup(name)
		f.Usage += fmt.Sprintf(" (or $%s)", Variable(name))
	}
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		for _, name := range names {
			if err := fromVariable(cmd.Flags().Lookup(name)); err != nil {
				return err
			}
		}
		if before != nil {
			return before(cmd, args)
		}
		return nil
	}
}

func fromVariable(f *pflag.Flag) error {
	value := os.Getenv(Variable(f.Name))
	if f.Changed || value == "" {
		return nil
	}
	if err := f.Value.Set(value); err != nil { // it stays a flag that is not given
		return Usage("unset "+Variable(f.Name), "$%s wants %s, not %q", Variable(f.Name), KindOf(f), value)
	}
	return nil
}

// Variable is the name of a flag in the environment.
func Variable(flag string) string {
	return "LOCKAGENT_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

package cli

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockagent/lockagent"
)

// placeFlag is the annotation of a flag that says which event log, daemon or server a verb is about. A command that is
// worth trying instead has the same flags, or it would be about another one.
const placeFlag = "place"

// MarkPlace annotates flags of a verb as a [placeFlag].
func MarkPlace(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		_ = cmd.Flags().SetAnnotation(name, placeFlag, []string{}) // the verb has this flag
	}
}

// Places repeats the flags of a command line that are a [placeFlag], apart from those that but selects. It cannot
// repeat what comes from the environment. Of an address that may have a password it says only that there is to be one.
func Places(flags *pflag.FlagSet, but ...func(*pflag.Flag) bool) (text string) {
	flags.Visit(func(flag *pflag.Flag) {
		_, place := flag.Annotations[placeFlag]
		if place && !slices.ContainsFunc(but, func(left func(*pflag.Flag) bool) bool { return left(flag) }) {
			text += repeated(flag)
		}
	})
	return text
}

// repeated is a flag as the command line has it, behind a blank. It is empty if the flag is set to nothing.
func repeated(flag *pflag.Flag) string {
	value := flag.Value.String()
	if list, ok := flag.Value.(pflag.SliceValue); ok {
		value = strings.Join(list.GetSlice(), ",")
	}
	what, _ := pflag.UnquoteUsage(flag)
	switch {
	case value == "":
		return ""
	case flag.Value.Type() == "bool":
		return " --" + flag.Name + "=" + value
	case what == "URL" && strings.Contains(value, "@"):
		return " --" + flag.Name + " URL"
	}
	return " --" + flag.Name + " " + ShellWord(value)
}

// SameBut is the command itself with another value of one flag.
func SameBut(cmd *cobra.Command, name, value string) string {
	flags := ""
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if flag.Name != name {
			flags += repeated(flag)
		}
	})
	return CommandLine(cmd, flags+" --"+name+" "+ShellWord(value))
}

// FlagsFirst is the annotation of a verb whose flags come before its arguments. Its value is arguments that are worth
// trying.
const FlagsFirst = "flags first"

// Again is a command that is worth trying: the verb, a lock if the verb needs one, and the place that the verb was
// about. Other flags may follow, except for a verb whose flags come first.
func Again(cmd *cobra.Command) string { return CommandLine(cmd, Places(cmd.Flags())) }

// WithFlag is a command that is worth trying, with a flag and its value.
func WithFlag(cmd *cobra.Command, flag string) string {
	return CommandLine(cmd, Places(cmd.Flags())+" "+flag)
}

// WithPlace is a command that is worth trying, with a flag for another place than the one that the verb was about.
func WithPlace(cmd *cobra.Command, flag string) string { return CommandLine(cmd, " "+flag) }

// CommandLine is a verb with flags, each of which begins with a blank, and with a lock if the verb needs one.
func CommandLine(cmd *cobra.Command, flags string) string {
	if args, first := cmd.Annotations[FlagsFirst]; first {
		return cmd.CommandPath() + flags + " " + args
	}
	if !strings.HasSuffix(cmd.Use, " NAME") {
		return cmd.CommandPath() + flags
	}
	name := "orders/42"
	if args := cmd.Flags().Args(); len(args) > 0 {
		if _, err := lockagent.ParseName(args[0]); err == nil {
			name = ShellWord(args[0])
		}
	}
	return cmd.CommandPath() + " " + name + flags
}

// ReadPlaces reads the flags of a command line that are a [placeFlag], though another flag is wrong, so that the
// command which is worth trying is about the same place.
func ReadPlaces(cmd *cobra.Command, args []string) {
	for i, arg := range args {
		if arg == "--" {
			return
		}
		name, value, has := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		flag := cmd.Flags().Lookup(name)
		if flag == nil || !strings.HasPrefix(arg, "--") || flag.Changed {
			continue
		}
		if _, place := flag.Annotations[placeFlag]; !place {
			continue
		}
		switch {
		case has:
		case flag.NoOptDefVal != "":
			value = flag.NoOptDefVal
		case i+1 < len(args) && !strings.HasPrefix(args[i+1], "--"):
			value = args[i+1]
		default:
			continue
		}
		_ = cmd.Flags().Set(name, value) // what is wrong with the other flag is told
	}
}

// ShellWord is text as one word of a shell.
func ShellWord(text string) string {
	special := func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !letter && !strings.ContainsRune("/._-+:@%,", r)
	}
	if text != "" && !strings.ContainsFunc(text, special) {
		return text
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) { // it shall not control a terminal
		quoted := strconv.QuoteToGraphic(text)
		return "$'" + strings.ReplaceAll(quoted[1:len(quoted)-1], "'", `\'`) + "'"
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// ExampleRedis is the address in what we suggest to try.
const ExampleRedis = "redis://127.0.0.1:6379"

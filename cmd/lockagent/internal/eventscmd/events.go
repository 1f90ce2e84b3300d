package eventscmd

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/events"
)

// New makes the verb events, with those below it.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Read the event log",
		Long:  "Read the log of everything that happened to locks: every agent publishes it to NATS.",
		Args:  cobra.ArbitraryArgs,
		RunE:  cli.WantsVerb("tail"),
	}
	cmd.AddCommand(newTail(), newHistory(), newState(), newHolders(), newTop(), newAudit(), newForward(),
		newProject())
	return cmd
}

// parseKinds checks the values of --kind.
func parseKinds(cmd *cobra.Command, texts []string) ([]lockagent.EventKind, error) {
	var kinds []lockagent.EventKind
	for _, text := range texts {
		kind, ok := lockagent.ParseEventKind(text)
		if !ok {
			return nil, cli.Usage(
				cli.Again(cmd)+" --kind granted,lost", "there is no kind of event %q; the kinds are %s", text, kindNames(),
			)
		}
		kinds = append(kinds, kind)
	}
	return kinds, nil
}

func kindNames() string {
	var names []string
	for _, k := range lockagent.EventKinds() {
		names = append(names, k.String())
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

const patternUsage = "only locks with this `name`, in which a part * is any part and a last part > all that follows"

// parsePattern checks the value of --lock, which may be empty.
func parsePattern(cmd *cobra.Command, text string) (events.Filter, error) {
	if text == "" {
		return events.Filter{}, nil
	}
	filter := events.Filter{Pattern: text}
	try := cli.Again(cmd) + " --lock 'orders/>'"
	if _, err := cli.ParseLock(text, try); err != nil {
		return filter, err
	}
	if err := filter.Validate(); err != nil {
		return filter, cli.Usage(try, "--lock: %s", reason(err))
	}
	return filter, nil
}

// lockFilter selects the lock with a name. If a part of the name is *, or the last one is >, it selects all locks that
// fit. It selects everything if there is no name.
func lockFilter(name lockagent.Name) events.Filter {
	if parts := strings.Split(string(name), "/"); slices.Contains(parts, "*") || slices.Contains(parts, ">") {
		return events.Filter{Pattern: string(name)}
	}
	return events.Filter{Lock: name}
}

// checkLock checks the name of a lock, or the pattern, that a verb is about.
func checkLock(cmd *cobra.Command, name lockagent.Name) error {
	if err := lockFilter(name).Validate(); err != nil {
		return cli.Usage(cmd.CommandPath()+" 'orders/>'"+cli.Places(cmd.Flags()), "%s", reason(err))
	}
	return nil
}

// reason is what is wrong with an option.
func reason(err error) string {
	if bad, ok := errors.AsType[*lockagent.OptionError](err); ok {
		return bad.Reason
	}
	return err.Error()
}

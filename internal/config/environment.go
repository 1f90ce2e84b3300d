package config

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/lockagent/lockagent/internal/nearest"
)

const variablePrefix = "LOCKAGENT_"

// fileVariable names the configuration file.
const fileVariable = variablePrefix + "CONFIG"

// otherVariables are not settings of the daemon: it sets them for others, or other verbs know them.
var otherVariables = []string{
	"LOCKAGENT_LOCK", "LOCKAGENT_TOKEN", "LOCKAGENT_CLAIM", "LOCKAGENT_OWNER", "LOCKAGENT_HELD", "LOCKAGENT_HUB",
	fileVariable,
	"LOCKAGENT_PORT", // which Kubernetes makes of the name of a service
}

// otherPrefixes begin variables that are likewise: of the verbs about a hub, and of the tests of this program.
var otherPrefixes = []string{"LOCKAGENT_HUB_", "LOCKAGENT_TEST_"}

func isOther(name string) bool {
	return slices.Contains(otherVariables, name) ||
		slices.ContainsFunc(otherPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// environment is what a list of NAME=VALUE says.
func environment(list []string) map[string]string {
	env := make(map[string]string, len(list))
	for _, item := range list {
		name, value, _ := strings.Cut(item, "=")
		env[name] = value
	}
	return env
}

// variables takes the settings that are in the environment. A variable that is set to nothing is taken as one that is
// not set. One that looks like a setting and is none is a problem. Any other one may be for another program.
func (l *loading) variables() {
	known, keys := make(map[string]*Setting), make(map[string]*Setting)
	for _, s := range table {
		keys[variableOf(s.Key)] = s
		if s.Flag != "" {
			known[s.Variable()] = s
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.env)) {
		if !strings.HasPrefix(name, variablePrefix) || l.env[name] == "" {
			continue
		}
		from := Origin{Kind: FromVariable, Name: name}
		near := nearest.Of(name, orOther(maps.Keys(known)))
		switch meant := keys[name]; {
		case known[name] != nil:
			l.give(known[name], from, l.env[name])
		case meant != nil && meant.Flag == "":
			l.problems.add(from, "", "is no setting; %s is a setting of the file only", meant.Key)
		case meant != nil:
			l.problems.add(from, "", "is no setting; did you mean $%s?", meant.Variable())
		case known[near] != nil:
			l.problems.add(from, "", "is no setting; did you mean $%s?", near)
		case !isOther(name):
			l.UnknownVariables = append(l.UnknownVariables, name)
		}
	}
}

// orOther adds the variables that are known and no settings. They come first: a misspelt one of them is not called a
// misspelt setting.
func orOther(names iter.Seq[string]) iter.Seq[string] {
	return slices.Values(append(slices.Clone(otherVariables), slices.Sorted(names)...))
}

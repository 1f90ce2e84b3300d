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
var otherVariables = []string{"LOCKAGENT_LOCK", "LOCKAGENT_TOKEN", "LOCKAGENT_CLAIM", "LOCKAGENT_OWNER", "LOCKAGENT_HELD", "LOCKAGENT_HUB", fileVariable}

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
// not set.
func (l *loading) variables() {
	known := make(map[string]*Setting)
	for _, s := range table {
		if s.Flag != "" {
			known[s.Variable()] = s
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.env)) {
		if !strings.HasPrefix(name, variablePrefix) || l.env[name] == "" {
			continue
		}
		from := Origin{Kind: FromVariable, Name: name}
		if s := known[name]; s != nil {
			l.give(s, from, l.env[name])
		} else if near := nearest.Of(name, orOther(maps.Keys(known))); near != "" && known[near] != nil {
			l.problems.add(from, "", "is no setting; did you mean $%s?", near)
		}
	}
}

// orOther adds the variables that are known and no settings. They come first: a misspelt one of them is not called a
// misspelt setting.
func orOther(names iter.Seq[string]) iter.Seq[string] {
	return slices.Values(append(slices.Clone(otherVariables), slices.Sorted(names)...))
}

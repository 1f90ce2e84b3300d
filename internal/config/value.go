package config

import "fmt"

// Value is the value of a setting, for people.
type Value struct {
	Setting *Setting
	Key     string // that of the setting, or of one rule
	Text    string // without secrets; empty if there is none
	Origin  Origin
}

// Values returns the values of all settings, in the order of the file. Each rule is a value by itself.
func (c *Config) Values() []Value {
	var all []Value
	for _, s := range table {
		if s.Key == rulesKey && len(c.Settings.Rules) > 0 {
			for i, r := range c.Settings.Rules {
				all = append(all, Value{s, fmt.Sprintf("%s.%d", s.Key, i+1), ruleText(r), c.rules[i]})
			}
			continue
		}
		all = append(all, Value{s, s.Key, s.kind.text(s.field(&c.Settings)), c.Origin(s.Key)})
	}
	return all
}

// Origin is where the value of a setting came from.
func (c *Config) Origin(key string) Origin {
	if from, ok := c.origins[key]; ok {
		return from
	}
	return Origin{Kind: FromDefault}
}

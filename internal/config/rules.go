package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/lockagent/lockagent/internal/daemon/access"
	"github.com/lockagent/lockagent/internal/nearest"
)

// ruleList is the kind of the rules.
type ruleList struct{}

func (ruleList) name() string { return "list of rules" }

func (ruleList) text(field any) string {
	var all []string
	for _, r := range *field.(*[]access.Rule) {
		all = append(all, ruleText(r))
	}
	return strings.Join(all, "; ")
}

func (ruleList) schema(schema map[string]any) {
	names := map[string]any{
		"type": "array", "minItems": 1,
		"items": map[string]any{
			"type": []string{"string", "integer"}, "minLength": 1, "minimum": 0, "maximum": math.MaxUint32,
		},
	}
	schema["type"] = "array"
	schema["items"] = map[string]any{
		"type": "object", "additionalProperties": false, "required": []string{"match", "allow"},
		"properties": map[string]any{
			"match": map[string]any{
				"type": "string", "minLength": 1, "description": "The names: * is any text without a slash, ** is any text.",
			},
			"allow":  map[string]any{"type": "array", "items": map[string]any{"type": "string", "enum": access.RightNames()}},
			"users":  names,
			"groups": names,
		},
	}
}

// ruleText is a rule in one line, as it could be in the file.
func ruleText(r access.Rule) string {
	list := func(items []string) string { return "[" + strings.Join(items, ", ") + "]" }
	text := fmt.Sprintf(
		"{match: %q, allow: %s", r.Match, list(strings.FieldsFunc(r.Allow.String(), func(r rune) bool { return r == ',' })),
	)
	if len(r.Users) > 0 {
		text += ", users: " + list(r.Users)
	}
	if len(r.Groups) > 0 {
		text += ", groups: " + list(r.Groups)
	}
	return text + "}"
}

// ruleList takes the rules.
func (l *loading) ruleList(at Origin, node *yaml.Node) {
	if node.Kind != yaml.SequenceNode || node.ShortTag() != "!!seq" {
		l.problems.add(at, rulesKey, "wants a list of rules such as - {match: %q, allow: [acquire], users: [root]}", "**")
		return
	}
	l.origins[rulesKey] = at
	for i, item := range node.Content {
		at := at.line(item)
		r := ruleReader{loading: l, key: fmt.Sprintf("%s.%d", rulesKey, i+1)}
		l.Settings.Rules = append(l.Settings.Rules, r.rule(at, item))
		l.Config.rules = append(l.Config.rules, at)
	}
}

// ruleReader reads one rule.
type ruleReader struct {
	*loading
	key string // of the rule
}

func (l *ruleReader) wrong(at Origin, format string, args ...any) {
	l.problems.add(at, l.key, format, args...)
}

var ruleKeys = []string{"match", "allow", "users", "groups"}

func (l *ruleReader) rule(at Origin, node *yaml.Node) (r access.Rule) {
	if node.Kind != yaml.MappingNode || node.ShortTag() != "!!map" {
		l.wrong(at, "wants %s and %s", strings.Join(ruleKeys[:3], ", "), ruleKeys[3])
		return r
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		at := at.line(key)
		if seen[key.Value] {
			l.wrong(at, "has %s twice", shown(key.Value))
			continue
		}
		seen[key.Value] = true
		switch key.Value {
		case "match":
			r.Match = l.pattern(at, value)
		case "allow":
			r.Allow = l.rights(at, value)
		case "users":
			r.Users = l.names(at, "users", value)
		case "groups":
			r.Groups = l.names(at, "groups", value)
		default:
			text := fmt.Sprintf("has %s, which is no part of a rule", shown(key.Value))
			if near := nearest.Of(key.Value, slices.Values(ruleKeys)); near != "" {
				text += "; did you mean " + near + "?"
			}
			l.wrong(at, "%s", text)
		}
	}
	for _, key := range ruleKeys[:2] {
		if !seen[key] {
			l.wrong(at, "has no %s", key)
		}
	}
	return r
}

func (l *ruleReader) pattern(at Origin, node *yaml.Node) access.Pattern {
	if node.Kind != yaml.ScalarNode || node.ShortTag() != tagText {
		l.wrong(at, "wants a text after match, such as %q", "orders/*")
		return access.Pattern{}
	}
	p, err := access.ParsePattern(node.Value)
	if err != nil {
		l.wrong(at, "has a wrong match: %v", err)
	}
	return p
}

// items returns what is in a list of texts. Numbers are texts, too, if they may be.
func (l *ruleReader) items(at Origin, of string, node *yaml.Node, numbers bool) (items []*yaml.Node) {
	if node.Kind != yaml.SequenceNode || node.ShortTag() != "!!seq" {
		l.wrong(at, "wants a list after %s, in brackets", of)
		return nil
	}
	for _, item := range node.Content {
		if tag := item.ShortTag(); item.Kind != yaml.ScalarNode || tag != tagText && (tag != tagNumber || !numbers) {
			l.wrong(at.line(item), "wants texts after %s", of)
			continue
		}
		items = append(items, item)
	}
	return items
}

func (l *ruleReader) rights(at Origin, node *yaml.Node) (all access.Right) {
	for _, item := range l.items(at, "allow", node, false) {
		right, err := access.ParseRight(item.Value)
		if err != nil {
			l.wrong(at.line(item), "has a wrong allow: %v", err)
		}
		all |= right
	}
	return all
}

func (l *ruleReader) names(at Origin, of string, node *yaml.Node) (names []string) {
	items := l.items(at, of, node, true)
	if node.Kind == yaml.SequenceNode && len(node.Content) == 0 {
		l.wrong(at, "has no %s, and would be for everybody; leave %s out if that is meant", of, of)
	}
	for _, item := range items {
		text := item.Value
		if item.ShortTag() == tagNumber {
			var id uint32
			if item.Decode(&id) != nil {
				l.wrong(at.line(item), "wants names or numbers after %s, not %s", of, shown(text))
				continue
			}
			text = strconv.FormatUint(uint64(id), 10)
		}
		if text == "" {
			l.wrong(at.line(item), "has an empty name in %s", of)
			continue
		}
		names = append(names, text)
	}
	return names
}

package config

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// width is how long a line of comments is.
const width = 100

// DefaultFile is a file with every setting and what it means. Those with a default have it, and the others are comments
// with an example.
func DefaultFile() string {
	var b strings.Builder
	b.WriteString("# The settings of lockagent serve. What stands behind #, without a space, is an example.\n")
	b.WriteString("# lockagent config validate checks this file, and lockagent config show tells what counts.\n")
	section := ""
	for _, s := range table {
		of, name := s.split()
		if of != section && of != "" {
			fmt.Fprintf(&b, "\n%s%s:\n", comment("# ", sectionHelp(of)), of)
		}
		section = of
		indent := ""
		if of != "" {
			indent = "  "
		}
		if of == "" {
			b.WriteString("\n")
		}
		b.WriteString(comment(indent+"# ", s.Describe()))
		switch {
		case s.Default != "":
			fmt.Fprintf(&b, "%s%s: %s\n", indent, name, s.yaml(s.Default))
		default:
			fmt.Fprintf(&b, "%s#%s: %s\n", indent, name, s.yaml(s.Example))
		}
	}
	return b.String()
}

func sectionHelp(name string) string {
	for _, s := range sections {
		if s.Name == name {
			return s.Help
		}
	}
	return ""
}

// comment breaks a text into lines that begin with a mark.
func comment(mark, text string) string {
	var b strings.Builder
	line := mark
	for word := range strings.FieldsSeq(text) {
		if len(line)+len(word) > width && line != mark {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line = mark
		}
		line += word + " "
	}
	return b.String() + strings.TrimRight(line, " ") + "\n"
}

// yamlValue is a value as YAML has it.
func (s *Setting) yamlValue(text string) any {
	k, ok := s.kind.(scalar)
	if !ok {
		return text
	}
	switch k.tag() {
	case tagNumber:
		n, _ := strconv.Atoi(text) // the table has numbers there
		return n
	case tagBoolean:
		return text == "true"
	}
	return text
}

// yaml is a value as it is written in the file.
func (s *Setting) yaml(text string) string {
	if s.Key == rulesKey {
		return text
	}
	b, err := yaml.Marshal(s.yamlValue(text))
	if err != nil {
		panic(err) // texts, numbers and truth values can always be written
	}
	return strings.TrimSpace(string(b))
}

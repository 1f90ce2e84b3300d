package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/lockagent/lockagent/internal/nearest"
)

// systemFile is the file of a host.
const systemFile = "/etc/lockagent/config.yaml"

// mostFile bounds the file, which has a few lines.
const mostFile = 1 << 20

// fileName returns the file to read, or empty if there is none. Somebody may have named it.
func (l *loading) fileName() (name string, named bool) {
	if name := cmp.Or(l.in.Flags[FileFlag], l.env[fileVariable]); name != "" {
		if !filepath.IsAbs(name) {
			name = filepath.Join(l.in.Dir, name)
		}
		return name, true
	}
	home := l.env["XDG_CONFIG_HOME"]
	if home == "" && l.env["HOME"] != "" {
		home = filepath.Join(l.env["HOME"], ".config")
	}
	for _, name := range []string{filepath.Join(home, "lockagent", "config.yaml"), systemFile} {
		if _, err := os.Stat(name); filepath.IsAbs(name) && !errors.Is(err, fs.ErrNotExist) {
			return name, false // also if it cannot be read: somebody made it
		}
	}
	return "", false
}

// readFile takes the settings in a file.
func (l *loading) readFile(name string, named bool) {
	l.File = name
	at := Origin{Kind: FromFile, Name: name}
	data, err := readBounded(name, mostFile)
	switch {
	case named && errors.Is(err, fs.ErrNotExist):
		l.problems.add(at, "", "there is no such file; lockagent config default prints one")
	case err != nil:
		why := reasonOf(err)
		l.problems = append(l.problems, &Problem{Origin: at, Reason: "cannot be read: " + why.Error(), Cause: why})
	default:
		l.parse(at, data)
	}
}

// readBounded reads a file that must not be larger than most.
func readBounded(name string, most int64) (data []byte, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err = io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("it has more than %v", Size(most))
	}
	return data, err
}

// reasonOf is an error without the name of the file, which is known.
func reasonOf(err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return at.Err
	}
	return err
}

// parse takes the settings in the text of a file.
func (l *loading) parse(at Origin, data []byte) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, another yaml.Node
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return // it has comments at most
	}
	if err == nil {
		if err = decoder.Decode(&another); err == nil {
			l.problems.add(at.line(&another), "", "has a second document; settings are in one")
			return
		}
	}
	if !errors.Is(err, io.EOF) {
		l.problems.add(syntaxError(at, err))
		return
	}
	root := document.Content[0]
	if isNothing(root) {
		return
	}
	l.section(at, "", root)
}

// line is the place of a node.
func (o Origin) line(n *yaml.Node) Origin {
	o.Line = n.Line
	return o
}

func isNothing(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

var lineOfError = onDemand(`^yaml: (?:line (\d+): )?`)

// syntaxError is what the library has against a file.
func syntaxError(at Origin, err error) (Origin, string, string) {
	text := err.Error()
	if match := lineOfError().FindStringSubmatch(text); match != nil {
		at.Line, _ = strconv.Atoi(match[1]) // 0 if it tells none
		text = text[len(match[0]):]
	}
	if strings.Contains(text, "unknown anchor") { // which it would repeat
		text = "an alias has no anchor"
	}
	return at, "", strings.ReplaceAll("is no YAML: "+text, "%", "%%")
}

// section takes the settings below a key, or all of them if it is empty.
func (l *loading) section(at Origin, name string, node *yaml.Node) {
	if node.Kind != yaml.MappingNode || node.ShortTag() != "!!map" {
		l.problems.add(at.line(node), name, "%s", strings.TrimSpace("has settings below it, such as "+exampleOf(name)))
		return
	}
	seen := make(map[string]int)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
			l.problems.add(at.line(key), name, "has a key that is no text")
			continue
		}
		full := key.Value
		if name != "" {
			full = name + "." + full
		}
		if before := seen[full]; before > 0 {
			l.problems.add(at.line(key), shown(full), "is there twice; it is in line %d already", before)
			continue
		}
		seen[full] = key.Line
		s := Find(full)
		if strings.Contains(key.Value, ".") {
			s = nil // a section and a name in one word
		}
		l.entry(at.line(key), full, s, value)
	}
}

// entry takes what a key has. s is the setting of the key, or nil if there is none.
func (l *loading) entry(at Origin, key string, s *Setting, value *yaml.Node) {
	section := isSection(key)
	switch {
	case value.Kind == yaml.AliasNode:
		l.problems.add(at, shown(key), "has an alias; write out what it stands for")
	case section && isNothing(value): // all that is below it is a comment
	case section:
		l.section(at, key, value)
	case s == nil:
		l.problems.add(at, shown(key), "%s", unknown(key))
	case isNothing(value):
		l.problems.add(at, key, "%v", errEmpty)
	case s.Key == rulesKey:
		l.ruleList(at, value)
	default:
		l.scalar(s, at, value)
	}
}

// scalar takes the value of a setting.
func (l *loading) scalar(s *Setting, at Origin, value *yaml.Node) {
	k := s.kind.(scalar)
	if value.Kind != yaml.ScalarNode {
		l.problems.add(at, s.Key, "wants %s, and not several values", k.wants())
		return
	}
	text := value.Value
	switch tag := value.ShortTag(); {
	case tag == tagText && k.tag() == tagText && text == "":
		l.problems.add(at, s.Key, "%v", errEmpty)
		return
	case tag != k.tag():
		l.problems.add(at, s.Key, "%v", otherTag(k, s.field(&Settings{}), text))
		return
	case tag == tagNumber:
		var n int
		if err := value.Decode(&n); err == nil { // YAML has several ways to write one
			text = strconv.Itoa(n)
		}
	case tag == tagBoolean:
		text = strings.ToLower(text)
	}
	l.give(s, at, text)
}

// otherTag is the error of a value that YAML does not take for what is wanted.
func otherTag(k scalar, scratch any, text string) error {
	if url, ok := k.(server); ok { // which may have a password
		return fmt.Errorf("wants %s", url.wants())
	}
	if k.tag() != tagText {
		return not(k, text)
	}
	if err := k.set(scratch, text); err != nil {
		return err
	}
	return fmt.Errorf("wants %s; put it in quotes: %.64q", k.wants(), text)
}

// shown is a key for people.
func shown(key string) string {
	if quoted := strconv.Quote(key); len(quoted) != len(key)+2 || len(key) > 64 || strings.Contains(key, " ") {
		return fmt.Sprintf("%.64q", key)
	}
	return key
}

func isSection(name string) bool {
	for _, s := range sections {
		if s.Name == name {
			return true
		}
	}
	return false
}

// exampleOf is a setting in a section, or of the whole file.
func exampleOf(section string) string {
	for _, s := range table {
		if of, _ := s.split(); of == section {
			return s.Key
		}
	}
	return ""
}

// unknown says what a key may mean that is not known.
func unknown(key string) string {
	if Find(key) != nil { // as one word with a dot
		section, name, _ := strings.Cut(key, ".")
		return fmt.Sprintf("is written as %s: with %s: below it", section, name)
	}
	if s := Find(key + "_file"); s != nil {
		return "is no setting, for no setting is a secret; " + s.Key + " names a file that has it"
	}
	var keys, names []string
	for _, s := range table {
		_, name := s.split()
		keys, names = append(keys, s.Key), append(names, name)
	}
	for _, s := range sections {
		keys = append(keys, s.Name)
	}
	if near := nearest.Of(key, slices.Values(keys)); near != "" {
		return "is no setting; did you mean " + near + "?"
	}
	last := key[strings.LastIndex(key, ".")+1:]
	if near := nearest.Of(last, slices.Values(names)); near != "" {
		var meant []string
		for i, name := range names {
			if name == near {
				meant = append(meant, table[i].Key)
			}
		}
		return "is no setting; did you mean " + strings.Join(meant, " or ") + "?"
	}
	return "is no setting; lockagent config default shows all of them"
}

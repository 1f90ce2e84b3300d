package lockagent

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
	"unique"
)

// Process describes a process: that of an agent, or the one behind a request, see [Who]. What nobody knows of it is
// zero, and so is what somebody does not want to tell.
type Process struct {
	Host    string // name of the machine
	Program string // base name of the executable
	Version string // of the main module of the program; only that of an agent has one
	PID     int    // on its machine; 0 if it is not known
	User    string // name of the user, or the number of one without a name
	Command string // the command with its arguments, which may hold secrets
}

// MaxProcessText bounds each text of a [Who], in bytes.
const MaxProcessText = 200

// Who says which process is behind a request for a lock. All requests of one process share what it says, so a Who is
// as small as a pointer. Make one with [Process.Who]. Two are equal with == if they say the same. The zero Who says
// nothing. A Who never changes, and many goroutines may use it at once.
type Who struct{ process unique.Handle[Process] }

// Who returns a Who that says what p does. Each text is cut after [MaxProcessText] bytes, or earlier so that no
// character is cut in two. Bytes that are not UTF-8 become U+FFFD. A PID below 0 becomes 0.
func (p Process) Who() Who {
	for _, text := range []*string{&p.Host, &p.Program, &p.Version, &p.User, &p.Command} {
		*text = beginning(*text)
	}
	p.PID = max(0, p.PID)
	if p == (Process{}) {
		return Who{}
	}
	return Who{unique.Make(p)}
}

// beginning is the part of a text that a Who keeps.
func beginning(text string) string {
	if len(text) > MaxProcessText {
		end := MaxProcessText
		for end > MaxProcessText-utf8.UTFMax && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	if valid := strings.ToValidUTF8(text, "\uFFFD"); len(valid) <= MaxProcessText {
		return valid
	}
	return strings.ToValidUTF8(text, "?")
}

// IsZero reports whether w says nothing.
func (w Who) IsZero() bool { return w == Who{} }

// Process returns what w says.
func (w Who) Process() Process {
	if w.IsZero() {
		return Process{}
	}
	return w.process.Value()
}

// String is a short text for people, as that of [Process.String].
func (w Who) String() string { return w.Process().String() }

// String is a short text for people, such as "backup.sh (pid 4711, root@db3)". It leaves out what is not known, and
// the command. It has no control characters, whoever wrote the texts. It is empty for the zero Process.
func (p Process) String() string {
	var at []string
	if p.PID > 0 {
		at = append(at, "pid "+strconv.Itoa(p.PID))
	}
	user := printable(p.User)
	if p.Host != "" && user != "" {
		user += "@"
	}
	if user += printable(p.Host); user != "" {
		at = append(at, user)
	}
	switch rest := strings.Join(at, ", "); {
	case p.Program == "":
		return rest
	case rest == "":
		return printable(p.Program)
	default:
		return fmt.Sprintf("%s (%s)", printable(p.Program), rest)
	}
}

// printable is a text that somebody else has chosen. It must neither control a terminal nor look like what stands
// beside it.
func printable(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == '(' || r == ')' || r == '"' }) {
		return strconv.Quote(text)
	}
	return text
}

package script

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/lockagent/lockagent"
)

// Outcome is the reply or the error of one lock of a call. The error concerns that lock alone.
type Outcome[R any] struct {
	Reply R
	Err   error
}

// lines reads a reply: lines of words, with one space between two words. The first unexpected
// text sets err. All that is read afterwards is zero.
type lines struct {
	line  string // the rest of the present line
	begun bool   // a word of the line was read, so a space comes next
	left  string // the lines after the present one
	more  bool   // there are such lines
	err   error
}

func readLines(reply string) lines {
	l := lines{left: reply, more: true}
	l.next()
	return l
}

// next goes to the next line.
func (l *lines) next() {
	l.line, l.left, l.more = strings.Cut(l.left, "\n")
	l.begun = false
}

func (l *lines) fail(format string, args ...any) {
	if l.err == nil {
		l.err = fmt.Errorf(format, args...)
	}
}

// ended reports whether the line has nothing more.
func (l *lines) ended() bool { return l.begun && l.line == "" }

// word reads up to the next space, or to the end of the line.
func (l *lines) word() string {
	rest := l.rest()
	word, _, found := strings.Cut(rest, " ")
	if found {
		l.line = rest[len(word):]
	}
	return word
}

// rest reads the rest of the line, which may be empty, but not absent.
func (l *lines) rest() (rest string) {
	switch {
	case l.err != nil:
		return ""
	case l.ended():
		l.fail("a line of it is too short")
		return ""
	case l.begun:
		l.line = l.line[1:]
	}
	rest, l.line, l.begun = l.line, "", true
	return rest
}

// number reads one that is not below the least.
func (l *lines) number(least int64) int64 {
	word := l.word()
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil || n < least || n > lockagent.MaxTenure {
		l.fail("%.40q is no such number", word)
		return 0
	}
	return n
}

func (l *lines) time() lockagent.StoreTime { return lockagent.StoreTime(l.number(1)) }

// about goes to the next line and returns its code, if the line is about the lock i, counted from 0.
// Otherwise it returns "": the reply has no line about the lock.
func (l *lines) about(i int) (code string) {
	if l.err != nil || !l.more {
		return ""
	}
	number, _, _ := strings.Cut(l.left, " ")
	if number != strconv.Itoa(i+1) {
		return ""
	}
	l.endLine()
	l.next()
	l.word()
	if code = l.word(); code == "" {
		l.fail("it has an empty code")
	}
	return code
}

// refusal reads the error that follows the code "e". Any other code is not known, which is an error
// of the reply.
func (l *lines) refusal(code string) error {
	if code != "e" {
		l.fail("it has an unknown code: %.40q", code)
		return l.err
	}
	return Refused(l.rest())
}

func (l *lines) endLine() {
	if l.line != "" {
		l.fail("a line of it is too long")
	}
}

// end returns an error if the reply was not as expected, or if there is more of it.
func (l *lines) end() error {
	l.endLine()
	if l.more {
		l.fail("it is too long")
	}
	if l.err != nil {
		return fmt.Errorf("%w: a reply that cannot be understood: %w", lockagent.ErrStoreUnavailable, l.err)
	}
	return nil
}

package events

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds how deep values may be nested, as it does in encoding/json.
const maxDepth = 10000

// scanner reads a JSON text from front to back. The first error ends it: the rest of the
// text is gone then, so that all loops end, and every method returns at once. So a caller
// looks at err once, at the end.
type scanner struct {
	text []byte
	at   int
	err  error
}

func (s *scanner) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("byte %d: %s", s.at, fmt.Sprintf(format, args...))
	}
	s.text, s.at = nil, 0
}

// unexpected fails because the text does not go on with what is wanted.
func (s *scanner) unexpected(wanted string) {
	if s.at < len(s.text) {
		s.fail("%q stands where %s is wanted", s.text[s.at], wanted)
	} else {
		s.fail("the text ends where %s is wanted", wanted)
	}
}

// peek skips blanks and returns the next byte, or 0 at the end.
func (s *scanner) peek() byte {
	if s.at < len(s.text) && s.text[s.at] > ' ' {
		return s.text[s.at]
	}
	return s.blanks()
}

func (s *scanner) blanks() byte {
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// open reads '{' or '['.
func (s *scanner) open(c byte, wanted string) {
	if s.peek() != c {
		s.unexpected(wanted)
		return
	}
	s.at++
}

// more reports whether an object or a list, of which n members were read, has another one.
// It reads the comma or the end.
func (s *scanner) more(end byte, n int) bool {
	c := s.peek()
	if c == end {
		s.at++
		return false
	}
	if n > 0 {
		if c != ',' {
			s.unexpected("a comma or '" + string(end) + "'")
			return false
		}
		s.at++
	}
	return s.err == nil
}

// key reads the key of a member and the colon.
func (s *scanner) key() []byte {
	key := s.string()
	if s.peek() != ':' {
		s.unexpected("a colon")
		return nil
	}
	s.at++
	return key
}

// end reads blanks up to the end of the text.
func (s *scanner) end() {
	if s.peek(); s.at < len(s.text) {
		s.unexpected("the end")
	}
}

// null reads null if it is next.
func (s *scanner) null() bool { return s.peek() == 'n' && s.literal("null") }

func (s *scanner) literal(word string) bool {
	if !bytes.HasPrefix(s.text[s.at:], []byte(word)) {
		s.unexpected("a value")
		return false
	}
	s.at += len(word)
	return true
}

// boolean reads true or false.
func (s *scanner) boolean() bool {
	if s.peek() == 't' {
		return s.literal("true")
	}
	if s.peek() != 'f' {
		s.unexpected("true or false")
		return false
	}
	s.literal("false")
	return false
}

// string reads a string. What it returns is valid until the text changes.
func (s *scanner) string() []byte {
	if s.peek() != '"' {
		s.unexpected("a string")
		return nil
	}
	start := s.at + 1
	for i, ascii := start, true; ; i++ {
		i += plainBytes(s.text[i:])
		switch {
		case i >= len(s.text):
			s.fail("the string has no end")
			return nil
		case s.text[i] == '"':
			text := s.text[start:i]
			if !ascii && !utf8.Valid(text) {
				s.fail("the string is not UTF-8")
				return nil
			}
			s.at = i + 1
			return text
		case s.text[i] == '\\':
			return s.escaped(i)
		case s.text[i] < ' ':
			s.at = i
			s.unexpected("a character of a string")
			return nil
		}
		ascii = false
	}
}

// again reads a string if it is last, which needs no escapes.
func (s *scanner) again(last string) bool {
	end := s.at + 1 + len(last)
	if end < len(s.text) && s.text[s.at] == '"' && s.text[end] == '"' && string(s.text[s.at+1:end]) == last {
		s.at = end + 1
		return true
	}
	return false
}

// plainBytes returns how many bytes at the start of text are ASCII characters that stand
// for themselves in a string. It looks at eight bytes at once, because the decoder spends
// most of its time here.
func plainBytes(text []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(text); i += 8 {
		x := binary.LittleEndian.Uint64(text[i:])
		quote, escape := x^ones*'"', x^ones*'\\'
		// The high bit of each byte says that it is not plain. A borrow can set more of
		// them, but only above the first that is right.
		special := (x | (x - ones*' ') | (quote - ones) | (escape - ones)) & highs
		if special != 0 {
			return i + bits.TrailingZeros64(special)/8
		}
	}
	for i < len(text) && asItIs[text[i]] {
		i++
	}
	return i
}

// escaped goes on with a string whose first escape is at i.
func (s *scanner) escaped(i int) []byte {
	text := append([]byte(nil), s.text[s.at+1:i]...)
	for i < len(s.text) && s.text[i] != '"' {
		switch c := s.text[i]; {
		case c == '\\':
			var ok bool
			if text, i, ok = s.escape(text, i+1); !ok {
				s.at = i
				s.fail("the escape is unknown")
				return nil
			}
		case c < ' ':
			s.at = i
			s.unexpected("a character of a string")
			return nil
		default:
			text = append(text, c)
			i++
		}
	}
	if i >= len(s.text) {
		s.fail("the string has no end")
		return nil
	}
	if !utf8.Valid(text) {
		s.fail("the string is not UTF-8")
		return nil
	}
	s.at = i + 1
	return text
}

// escape appends what is escaped at i, behind the backslash, and returns where the string
// goes on.
func (s *scanner) escape(text []byte, i int) ([]byte, int, bool) {
	if i >= len(s.text) {
		return text, i, false
	}
	switch c := s.text[i]; c {
	case '"', '\\', '/':
		return append(text, c), i + 1, true
	case 'b':
		return append(text, '\b'), i + 1, true
	case 'f':
		return append(text, '\f'), i + 1, true
	case 'n':
		return append(text, '\n'), i + 1, true
	case 'r':
		return append(text, '\r'), i + 1, true
	case 't':
		return append(text, '\t'), i + 1, true
	case 'u':
	default:
		return text, i, false
	}
	r, ok := s.unit(i + 1)
	if !ok {
		return text, i, false
	}
	i += 5
	if utf16.IsSurrogate(r) {
		// Half of a pair alone is no character; AppendRune writes U+FFFD for it.
		if low, ok := s.unit(i + 2); ok && s.text[i] == '\\' && s.text[i+1] == 'u' {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				r = pair
				i += 6
			}
		}
	}
	return utf8.AppendRune(text, r), i, true
}

// unit returns the four hexadecimal digits at i.
func (s *scanner) unit(i int) (rune, bool) {
	if i+4 > len(s.text) {
		return 0, false
	}
	n, err := strconv.ParseUint(string(s.text[i:i+4]), 16, 16)
	return rune(n), err == nil
}

// integer reads a number that must be an integer, however it is spelled, and returns its
// sign and its amount.
func (s *scanner) integer() (negative bool, n uint64) {
	negative = s.peek() == '-'
	i := s.at
	if negative {
		i++
	}
	start := i
	n, digits := leadingDigits(s.text[min(i, len(s.text)):])
	i += digits
	simple := i >= len(s.text) || s.text[i] != '.' && s.text[i]|0x20 != 'e'
	if simple && 0 < digits && digits < 20 && (s.text[start] != '0' || digits == 1) {
		s.at = i
		return negative, n
	}
	at, number := s.at, s.number()
	if s.err != nil {
		return false, 0
	}
	n, problem := integral(bytes.TrimPrefix(number, []byte("-")))
	if problem != "" {
		s.at = at
		s.fail("the number %.40s %s", number, problem)
	}
	return negative, n
}

// leadingDigits returns the value of the digits at the start of text, if it fits, and how many
// there are. It looks at eight digits at once: numbers of 16 digits are common, because times of stores are.
func leadingDigits(text []byte) (n uint64, digits int) {
	i := 0
	for ; i+8 <= len(text) && i < 16; i += 8 {
		eight, ok := eightDigits(binary.LittleEndian.Uint64(text[i:]))
		if !ok {
			break
		}
		n = n*1e8 + eight
	}
	for ; i < len(text) && '0' <= text[i] && text[i] <= '9'; i++ {
		n = n*10 + uint64(text[i]-'0')
	}
	return n, i
}

// number reads a number.
func (s *scanner) number() []byte {
	start := s.at
	digits := func() bool {
		from := s.at
		for s.at < len(s.text) && '0' <= s.text[s.at] && s.text[s.at] <= '9' {
			s.at++
		}
		return s.at > from
	}
	next := func(set string) bool {
		if s.at < len(s.text) && bytes.IndexByte([]byte(set), s.text[s.at]) >= 0 {
			s.at++
			return true
		}
		return false
	}
	next("-")
	ok := next("0") || digits()
	if ok && next(".") {
		ok = digits()
	}
	if ok && next("eE") {
		next("+-")
		ok = digits()
	}
	if !ok {
		s.unexpected("a digit")
		return nil
	}
	return s.text[start:s.at]
}

// integral returns the value of a number without a sign, or why it has no such value.
func integral(number []byte) (n uint64, problem string) {
	const tooGreat, noInteger = "is too great", "is no integer"
	mantissa, exponent := number, []byte("0")
	if i := bytes.IndexAny(number, "eE"); i >= 0 {
		mantissa, exponent = number[:i], number[i+1:]
	}
	whole, fraction, _ := bytes.Cut(mantissa, []byte("."))
	digits := append(append([]byte(nil), whole...), fraction...)
	digits = bytes.TrimLeft(digits, "0")
	if len(digits) == 0 {
		return 0, ""
	}
	significant := bytes.TrimRight(digits, "0")
	power, err := strconv.Atoi(string(exponent))
	zeros := power - len(fraction) + len(digits) - len(significant)
	switch {
	case err != nil && exponent[0] == '-' || err == nil && zeros < 0:
		return 0, noInteger
	case err != nil || len(significant)+zeros > 20:
		return 0, tooGreat
	}
	n, err = strconv.ParseUint(string(append(significant, bytes.Repeat([]byte("0"), zeros)...)), 10, 64)
	if err != nil {
		return 0, tooGreat
	}
	return n, ""
}

// skip reads any value, depth levels inside of others.
func (s *scanner) skip(depth int) {
	c := s.peek()
	if depth >= maxDepth && (c == '{' || c == '[') {
		s.fail("values are nested deeper than %d", maxDepth)
	}
	switch {
	case c == '"':
		s.string()
	case c == '{':
		s.at++
		for n := 0; s.more('}', n); n++ {
			s.key()
			s.skip(depth + 1)
		}
	case c == '[':
		s.at++
		for n := 0; s.more(']', n); n++ {
			s.skip(depth + 1)
		}
	case c == '-' || '0' <= c && c <= '9':
		s.number()
	case c == 't':
		s.literal("true")
	case c == 'f':
		s.literal("false")
	case c == 'n':
		s.literal("null")
	default:
		s.unexpected("a value")
	}
}

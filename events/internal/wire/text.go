package wire

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

const HexDigits = "0123456789ABCDEF"

// appendText appends key and text as a JSON string, or nothing if text is empty. Bytes that
// are not UTF-8 become U+FFFD.
func appendText(b []byte, key, text string) []byte {
	if text == "" {
		return b
	}
	return appendString(append(b, key...), text)
}

// appendString appends text as a JSON string.
func appendString(b []byte, text string) []byte {
	b = append(b, '"')
	start := len(b)
	b = append(b, text...)
	if n := plainBytes(b[start:]); n < len(text) {
		b = appendEscaped(b[:start+n], text[n:])
	}
	return append(b, '"')
}

// appendEscaped appends text as a part of a JSON string.
func appendEscaped(b []byte, text string) []byte {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case asItIs[c]:
			b = append(b, c)
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRuneInString(text[i:])
			b = utf8.AppendRune(b, r)
			i += size - 1
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', HexDigits[c>>4], HexDigits[c&15])
		default:
			b = append(b, '\\', c)
		}
	}
	return b
}

// asItIs has the ASCII characters that stand for themselves in a JSON string.
var asItIs = func() (table [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		table[c] = c != '"' && c != '\\'
	}
	return table
}()

// plainBytes returns how many bytes at the start of text are ASCII characters that stand
// for themselves in a string. It looks at eight bytes at once: nearly all texts have nothing else.
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

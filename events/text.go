package events

import "unicode/utf8"

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
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
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

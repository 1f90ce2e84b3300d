package events

import "unicode/utf8"

// appendText appends key and text as a JSON string, or nothing if text is empty. Bytes that
// are not UTF-8 become U+FFFD.
func appendText(b []byte, key, text string) []byte {
	if text == "" {
		return b
	}
	b = append(append(b, key...), '"')
	from := 0 // the text before it is appended
	for i := 0; i < len(text); {
		c := text[i]
		if asItIs[c] {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(text[i:])
			if r == utf8.RuneError && size == 1 {
				b = append(append(b, text[from:i]...), `\ufffd`...)
				from = i + 1
			}
			i += size
			continue
		}
		b = append(b, text[from:i]...)
		if c < ' ' {
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		} else {
			b = append(b, '\\', c)
		}
		i++
		from = i
	}
	return append(append(b, text[from:]...), '"')
}

// asItIs has the ASCII characters that stand for themselves in a JSON string.
var asItIs = func() (table [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		table[c] = c != '"' && c != '\\'
	}
	return table
}()

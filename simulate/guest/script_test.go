package main

import (
	"testing"

	lua "github.com/yuin/gopher-lua"
)

// What miniredis lacks is there, and what gopher-lua gets wrong is right.
func TestComplete(t *testing.T) {
	for script, want := range map[string]string{
		"local a, b = 'a', 'b'\na, b = b, a\nreturn a .. b":                "ba",
		"local a, b = 'a', 'b'\nb, a = a, b\nreturn a .. b":                "ba",
		"local a, b, c = 'a', 'b', 'c'\na, b = b, c\nreturn a .. b":        "bc",
		"return string.format('%s %.0f %d', '1', '1234567890123456', '7')": "1 1234567890123456 7",
		"return string.format('%.0f', 1234567890123456)":                   "1234567890123456",
		"return struct.pack('>I4I4I4I4', 0x61626364, 0x65666768, 1, 255)":  "abcdefgh\x00\x00\x00\x01\x00\x00\x00\xff",
	} {
		l := lua.NewState()
		if err := l.DoString(complete(script)); err != nil {
			t.Errorf("%s: %v", script, err)
		} else if got := l.ToString(-1); got != want {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
		l.Close()
	}
}

package cli

import (
	"io"
	"os"

	"golang.org/x/term"
)

// TerminalWidth is the width of the terminal that w is, or 0 if it is none.
func TerminalWidth(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 {
		return 80
	}
	return width
}

// HasColour reports whether w is a terminal whose user has nothing against colours.
func HasColour(w io.Writer) bool {
	return TerminalWidth(w) > 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

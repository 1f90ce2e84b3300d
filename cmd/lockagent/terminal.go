package main

import (
	"io"
	"os"

	"golang.org/x/term"
)

// terminalWidth is the width of the terminal that w is, or 0 if it is none.
func terminalWidth(w io.Writer) int {
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

// hasColour reports whether w is a terminal whose user has nothing against colours.
func hasColour(w io.Writer) bool {
	return terminalWidth(w) > 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

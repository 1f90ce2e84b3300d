package cli

import (
	"io"
	"log/slog"
)

// NewLogger is for what goes wrong on the way and that no result tells, and for the end of it.
func NewLogger(stderr io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

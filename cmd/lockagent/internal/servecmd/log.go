package servecmd

import (
	"context"
	"io"
	"log/slog"

	"go.opentelemetry.io/otel/trace"

	"github.com/lockagent/lockagent/internal/config"
)

// newDaemonLogger is the log of the daemon. Its lines have the trace that they belong to.
func newDaemonLogger(stderr io.Writer, format string, level slog.Leveler) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if format == config.JSONLog {
		return slog.New(traced{slog.NewJSONHandler(stderr, options)})
	}
	return slog.New(traced{slog.NewTextHandler(stderr, options)})
}

// levelOf is the level of the settings.
func levelOf(c *config.Config) (level slog.Level) {
	_ = level.UnmarshalText([]byte(c.Settings.Log.Level)) // the settings have no others
	return level
}

// traced adds trace and span to the lines of a log.
type traced struct{ slog.Handler }

// Handle implements [slog.Handler].
func (h traced) Handle(ctx context.Context, r slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h traced) WithAttrs(attrs []slog.Attr) slog.Handler { return traced{h.Handler.WithAttrs(attrs)} }

// WithGroup implements [slog.Handler].
func (h traced) WithGroup(name string) slog.Handler { return traced{h.Handler.WithGroup(name)} }

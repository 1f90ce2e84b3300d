package natsserver

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestLogger(t *testing.T) {
	var out bytes.Buffer
	l := newLogger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})))
	for _, logf := range []func(string, ...any){l.Debugf, l.Tracef, l.Noticef, l.Warnf, l.Errorf, l.Fatalf, l.Fatalf} {
		logf("%d%%", 7)
	}
	const want = "level=DEBUG msg=\"nats: 7%\"\nlevel=DEBUG msg=\"nats: 7%\"\nlevel=DEBUG msg=\"nats: 7%\"\n" +
		"level=WARN msg=\"nats: 7%\"\nlevel=ERROR msg=\"nats: 7%\"\nlevel=ERROR msg=\"nats: 7%\"\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	out.Reset()
	l.Warnf(
		"Filestore [%s] Sourcing state is outdated; attempting to recover using backward scan (seq %d to %d)", "S", 1, 7,
	)
	l.Warnf("Filestore [%s] TTL state is outdated", "Sourcing state is outdated")
	if got := out.String(); !strings.HasPrefix(got, "level=DEBUG") || !strings.Contains(got, "\nlevel=WARN") {
		t.Errorf("got\n%s", got)
	}
	if why := <-l.fatal; why != "7%" {
		t.Errorf("the first fatal reason is %q", why)
	}
	for range 2 { // nobody listens
		l.Errorf("Filestore [%s] Critical write error: %v", "S", "full")
	}
	if len(l.broken) != 1 {
		t.Error("nobody is told that a stream is not written any more")
	}
}

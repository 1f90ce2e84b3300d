package demo

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"
)

func progress(elapsed time.Duration, grants uint64) Progress {
	return Progress{
		Phase: Working, Elapsed: elapsed, Locked: true,
		Stats: Stats{Grants: grants, HandOffs: grants / 2, Losses: map[string]uint64{"denied": 3}},
	}
}

func intro() string { return "Here we go." }

func TestScreenPiped(t *testing.T) {
	var out bytes.Buffer
	s := NewScreen(&out, 0, intro)
	s.Watch(Progress{Phase: Opened})
	s.Watch(progress(time.Second, 1200))
	p := progress(3*time.Second, 5200)
	p.Stats.Resets, p.Stats.Unpublished = 1, 20_000
	s.Watch(p)
	p = progress(3*time.Second, 6000)
	p.Phase = Stopping
	s.Watch(p)
	s.Watch(Progress{Phase: Auditing, Elapsed: 3 * time.Second, Stats: Stats{Records: 123_456}})
	s.Clear()
	const want = `Here we go.

  1s   1,200 grants  1,200/s  p50   0.0ms  p99   0.0ms   50% handed off  3 lost
  3s   5,200 grants  2,000/s  p50   0.0ms  p99   0.0ms   50% handed off  3 lost  1 store reset  20,000 facts behind
  3s   6,000 grants  2,000/s  p50   0.0ms  p99   0.0ms   50% handed off  3 lost  stopping
  3s auditing 123,456 records
`
	if got := out.String(); got != want {
		t.Errorf("the screen shows\n%s\nwant\n%s", got, want)
	}
}

func TestScreenWithoutLocks(t *testing.T) {
	var out bytes.Buffer
	s := NewScreen(&out, 0, intro)
	for _, phase := range []Phase{Working, Stopping} { // the same line, shown once
		s.Watch(Progress{Phase: phase, Elapsed: time.Second, Writes: 5000, Lost: 4000})
	}
	if got, want := out.String(), "  1s     5,000 writes      4,000 lost\n"; got != want {
		t.Errorf("the screen shows %q, want %q", got, want)
	}
}

func TestScreenOnATerminal(t *testing.T) {
	var out bytes.Buffer
	s := NewScreen(&out, 80, intro)
	s.Watch(Progress{Phase: Opened})
	s.Watch(progress(time.Second, 1200))
	_, _ = io.WriteString(s.Above(&out), "a warning\n")
	s.Watch(progress(2*time.Second, 2200))
	s.Watch(progress(3*time.Second, 3200))
	s.Clear()
	s.Clear()
	text := strings.ReplaceAll(out.String(), "\r\x1b[K", "<cleared>")
	const want = "Here we go.\n\n" +
		"  1s   1,200 grants  1,200/s  p50   0.0ms  p99   0.0ms   50% handed off  3 lost<cleared>a warning\n" +
		"  2s   2,200 grants  1,000/s  p50   0.0ms  p99   0.0ms   50% handed off  3 lost<cleared>" +
		"  3s   3,200 grants  1,000/s  p50   0.0ms  p99   0.0ms   50% handed off  3 lost<cleared>"
	if text != want {
		t.Errorf("the terminal gets\n%s\nwant\n%s", text, want)
	}

	// A line that is longer than the terminal is wide could not be cleared.
	out.Reset()
	NewScreen(&out, 20, intro).Watch(progress(time.Second, 1200))
	if got, want := out.String(), "  1s   1,200 grants"; got != want {
		t.Errorf("a narrow terminal gets %q, want %q", got, want)
	}
}

package demo

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/lockagent/lockagent/cmd/lockagent/internal/readable"
)

// Screen shows the progress of a demonstration: on a terminal in one line that
// changes, elsewhere in a line each second. It is safe for concurrent use.
type Screen struct {
	out   io.Writer
	width int // of the terminal; 0 if out is none
	intro func() string

	mu     sync.Mutex
	drawn  bool     // guarded by mu; there is a line that will be replaced
	last   string   // guarded by mu; what was shown
	before Progress // guarded by mu; when it was working
}

// NewScreen returns a screen. width is the width of the terminal, or 0 if out is
// no terminal. intro says what is going to happen. It is called when the
// demonstration is sure to run.
func NewScreen(out io.Writer, width int, intro func() string) *Screen {
	return &Screen{out: out, width: width, intro: intro}
}

// Every is how often the screen wants to be told.
func (s *Screen) Every() time.Duration {
	if s.width > 0 {
		return 200 * time.Millisecond
	}
	return time.Second
}

// Watch shows p. What cannot be written is not shown: the summary matters.
func (s *Screen) Watch(p Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.Phase == Opened {
		_, _ = fmt.Fprintf(s.out, "%s\n\n", s.intro())
		return
	}
	text := s.text(p)
	if p.Phase == Working {
		s.before = p
	}
	if s.width == 0 {
		if text != s.last {
			_, _ = fmt.Fprintln(s.out, text)
		}
		s.last = text
		return
	}
	if len(text) >= s.width {
		text = text[:s.width-1]
	}
	s.clear()
	_, _ = io.WriteString(s.out, text)
	s.drawn = true
}

// text is ASCII, so that it can be cut anywhere.
func (s *Screen) text(p Progress) string {
	seconds := p.Elapsed.Seconds()
	switch {
	case p.Phase == Auditing:
		return fmt.Sprintf("%3.0fs auditing %s records", seconds, readable.Number(p.Stats.Records))
	case !p.Locked:
		return fmt.Sprintf("%3.0fs %9s writes  %9s lost", seconds, readable.Number(p.Writes), readable.Number(p.Lost))
	}
	st := p.Stats
	since := s.before
	if p.Phase == Stopping { // of all, for the time since the last may be next to nothing
		since = Progress{}
	}
	rate := float64(st.Grants-since.Stats.Grants) / (p.Elapsed - since.Elapsed).Seconds()
	text := fmt.Sprintf("%3.0fs %7s grants %6s/s  p50 %5.1fms  p99 %5.1fms  %3d%% handed off  %s lost",
		seconds, readable.Number(st.Grants), readable.Number(int64(rate)), milliseconds(st.wait(50)),
		milliseconds(st.wait(99)),
		int(100*share(st.HandOffs, st.Grants)), readable.Number(st.lost()))
	if st.Resets > 0 {
		text += "  " + readable.Counted(int(st.Resets), "store reset", "store resets")
	}
	if st.Unpublished > 10_000 {
		text += fmt.Sprintf("  %s facts behind", readable.Number(st.Unpublished))
	}
	if p.Phase == Stopping {
		text += "  stopping"
	}
	return text
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Clear takes the line away that would be replaced.
func (s *Screen) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
}

func (s *Screen) clear() {
	if s.drawn {
		_, _ = io.WriteString(s.out, "\r\x1b[K")
		s.drawn = false
	}
}

// Above returns a writer for whole lines on w, which may be the same terminal:
// they do not get mixed up with the line that changes.
func (s *Screen) Above(w io.Writer) io.Writer { return above{s, w} }

type above struct {
	screen *Screen
	w      io.Writer
}

func (a above) Write(b []byte) (int, error) {
	a.screen.mu.Lock()
	defer a.screen.mu.Unlock()
	a.screen.clear()
	return a.w.Write(b)
}

package wire

import "github.com/lockagent/lockagent"

// appendWho appends who asked for the lock. Most records have that as the one before.
func appendWho(b []byte, w lockagent.Who, last *Before) []byte {
	if w.IsZero() {
		return b
	}
	start := len(b)
	if last.of == w {
		b = append(b, b[last.who.from:last.who.to]...)
	} else {
		p := w.Process()
		b = appendProcess(b, `,"who":`, &p)
	}
	last.of, last.who = w, section{start, len(b)}
	return b
}

// whoSize is about how many bytes a Who has in a record, as [fact.size].
func whoSize(w lockagent.Who) int {
	if w.IsZero() {
		return 0
	}
	p := w.Process()
	return 50 + 3*(len(p.Host)+len(p.Program)+len(p.Version)+len(p.User)+len(p.Command))
}

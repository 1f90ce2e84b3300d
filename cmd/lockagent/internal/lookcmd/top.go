//go:build linux

package lookcmd

import (
	"context"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/cli"
	"github.com/lockagent/lockagent/cmd/lockagent/internal/client"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
)

// NewTop makes the verb top.
func NewTop() *cobra.Command {
	var f client.Flag
	cmd := &cobra.Command{
		Use:   "top [PATTERN]",
		Short: "Show the locks in a table that follows what happens",
		Long: `Top shows the locks that programs of this host hold or wait for, in a table that follows what happens. Those
with the most waiters come first. The key s sorts by age, by name, or by waiters again. The key q ends it.

Without a terminal it prints the table once. ls has more forms for programs.`,
		Example: "  lockagent top\n  lockagent top 'orders/*' | head",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			pattern, err := patternOf(cmd, args)
			if err != nil {
				return err
			}
			daemon, err := f.Open(cmd)
			if err != nil {
				return err
			}
			defer daemon.Close()
			t := &top{
				screen: screen{socket: daemon.Path, locks: make(map[lockagent.Name]client.LockView)}, daemon: daemon,
				pattern: pattern,
			}
			if cli.TerminalWidth(cmd.OutOrStdout()) == 0 {
				return t.once(cmd)
			}
			return t.follow(cmd, cmd.OutOrStdout().(*os.File))
		},
	}
	f.Add(cmd)
	return cmd
}

// top is a screen, and the daemon that tells it what to show.
type top struct {
	screen
	daemon  *client.Daemon
	pattern string
}

// once prints one table.
func (t *top) once(cmd *cobra.Command) error {
	err := t.daemon.List(cmd.Context(), &lockagentv1.ListRequest{Pattern: t.pattern}, func(l *lockagentv1.Lock) bool {
		t.hear(&lockagentv1.WatchEvent{Event: &lockagentv1.WatchEvent_Lock{Lock: l}})
		return true
	})
	if err != nil {
		return err
	}
	table := cli.ListFlag{Form: "table"}
	return table.Write(cmd, t.list(time.Now()))
}

// heard is what the daemon told, or why it tells nothing any more.
type heard struct {
	event *lockagentv1.WatchEvent
	err   error
}

const (
	drawEvery  = 200 * time.Millisecond // at most
	agesEvery  = time.Second            // at least, for what gets older
	watchAgain = time.Second            // after the daemon has gone
)

// What a terminal is told.
const (
	otherScreen = "\x1b[?1049h\x1b[?25l" // a screen of our own without a cursor
	ownScreen   = "\x1b[?25h\x1b[?1049l"
	toTheStart  = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// follow draws the screen until somebody ends it.
func (t *top) follow(cmd *cobra.Command, out *os.File) error {
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	events := make(chan heard)
	go t.watch(ctx, events)
	first := <-events
	if first.err != nil {
		return first.err // nothing has been shown yet
	}
	t.hear(first.event)
	restore, err := takeTerminal(out)
	if err != nil {
		return err
	}
	defer restore()
	keys := make(chan byte)
	if term.IsTerminal(int(os.Stdin.Fd())) {
		go readKeys(ctx, os.Stdin, keys)
	}
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	ages := time.NewTicker(agesEvery)
	defer ages.Stop()
	var due <-chan time.Time // when there is something new to draw
	draw := func() error { due = nil; return t.write(out) }
	err = draw()
	for err == nil {
		select {
		case <-ctx.Done():
			return nil
		case h := <-events:
			t.told(h)
			if due == nil {
				due = time.After(drawEvery)
			}
		case key := <-keys:
			switch key {
			case 'q', 'Q', ctrlC:
				return nil
			case 's', 'S':
				t.order = (t.order + 1) % len(orders)
			}
			err = draw()
		case <-due:
			err = draw()
		case <-resized:
			err = draw()
		case <-ages.C:
			err = draw()
		}
	}
	return err
}

// ctrlC is what a terminal sends in place of an interrupt while it gives us each key.
const ctrlC = 3

// told notes an event, or that there will be none for a while.
func (t *top) told(h heard) {
	if h.err == nil {
		if t.gone != nil { // all locks follow
			clear(t.locks)
		}
		t.gone = nil
		t.hear(h.event)
		return
	}
	if t.gone == nil {
		t.since = time.Now()
	}
	t.gone = h.err
}

// watch tells what the daemon tells, and begins again when the daemon has gone.
func (t *top) watch(ctx context.Context, tell chan<- heard) {
	send := func(h heard) {
		select {
		case tell <- h:
		case <-ctx.Done():
		}
	}
	for ctx.Err() == nil {
		events, err := t.daemon.Look.Watch(ctx, &lockagentv1.WatchRequest{Pattern: t.pattern})
		if err == nil {
			for events.Receive() {
				send(heard{event: events.Msg()})
			}
			err = events.Err()
			_ = events.Close()
		}
		if err == nil { // the daemon ends
			err = io.ErrUnexpectedEOF
		}
		send(heard{err: t.daemon.Failed(err)})
		select {
		case <-time.After(watchAgain):
		case <-ctx.Done():
		}
	}
}

// write draws the screen on a terminal.
func (t *top) write(out *os.File) error {
	width, height, err := term.GetSize(int(out.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		width, height = 80, 24
	}
	var b strings.Builder
	b.WriteString(toTheStart)
	for i, line := range t.draw(width, height, time.Now()) {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(line + clearLine)
	}
	b.WriteString(clearBelow)
	_, err = io.WriteString(out, b.String())
	return err
}

// takeTerminal has the terminal give us each key, and shows another screen, until restore is called.
func takeTerminal(out *os.File) (restore func(), err error) {
	keys := int(os.Stdin.Fd())
	before := (*term.State)(nil)
	if term.IsTerminal(keys) {
		if before, err = term.MakeRaw(keys); err != nil {
			return nil, err
		}
	}
	_, err = io.WriteString(out, otherScreen)
	return func() {
		_, _ = io.WriteString(out, ownScreen) // a terminal that has gone needs no more
		if before != nil {
			_ = term.Restore(keys, before)
		}
	}, err
}

// readKeys tells the keys that somebody presses.
func readKeys(ctx context.Context, in io.Reader, tell chan<- byte) {
	var key [1]byte
	for {
		if n, err := in.Read(key[:]); err != nil || n == 0 {
			return
		}
		select {
		case tell <- key[0]:
		case <-ctx.Done():
			return
		}
	}
}

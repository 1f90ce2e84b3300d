package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/tracing"
)

// invitation is what a process reads first from its standard input. It is not
// passed by arguments, which others can see, for addresses may have passwords.
type invitation struct {
	Work  Work
	Index int
	Hub   string // the path of a socket
	Redis string
	Log   eventLog
}

// reportEvery is how often a process tells what it has done.
const reportEvery = 200 * time.Millisecond

// maxIdle is how many connections to the hub are kept: more than an agent has workers that are at a counter at once.
const maxIdle = 1024

// Join is the work of a process that [Config.Command] has started. It reads its orders
// from in, and works until ctx or in ends. So it never outlives the demonstration.
// logger is told of trouble with the store and the event log. telemetry is where spans
// and metrics go.
func Join(ctx context.Context, in io.Reader, logger *slog.Logger, telemetry tracing.Config) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	lines := json.NewDecoder(in)
	var inv invitation
	if err := lines.Decode(&inv); err != nil {
		return fmt.Errorf("demo: this is for processes that a demonstration starts: %w", err)
	}
	go func() {
		_, _ = lines.Token() // returns when in ends, for nothing more is written to it
		leave()
	}()

	far := newLink(inv.Hub, inv.Index)
	defer far.client.CloseIdleConnections()
	a, err := inv.agent(ctx, far, logger, telemetry)
	if err != nil {
		return err
	}
	defer showPublishing(a.stats, telemetry)()
	return far.attend(ctx, a)
}

func (inv invitation) agent(
	ctx context.Context, far *link, logger *slog.Logger, telemetry tracing.Config,
) (*agent, error) {
	if inv.Work.NoLocks {
		return newAgent(inv.Work, far, nil, eventLog{}, telemetry)
	}
	store, err := openRedis(ctx, inv.Redis, inv.Work.Lease)
	if err != nil {
		return nil, err
	}
	inv.Log.Logger = logger
	return newAgent(inv.Work, far, store, inv.Log, describeRedis(telemetry, inv.Redis))
}

// link is the hub, seen from a process.
type link struct {
	client *http.Client
	index  int
}

var _ counters = (*link)(nil)

// newLink returns the link of the process with this index to the hub whose socket has the path.
func newLink(path string, index int) *link {
	transport := &http.Transport{MaxIdleConnsPerHost: maxIdle}
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
	return &link{client: &http.Client{Transport: transport}, index: index}
}

// attend runs the agent from the moment that the hub says, and reports what it
// does, also after its end.
func (l *link) attend(ctx context.Context, a *agent) error {
	if err := l.call(ctx, "ready", Hello{l.index, a.id()}, &struct{}{}); ctx.Err() != nil {
		return a.close()
	} else if err != nil {
		return errors.Join(err, a.close())
	}
	var work errgroup.Group
	done := make(chan struct{})
	work.Go(func() error {
		defer close(done)
		return a.run(ctx)
	})
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = l.report(a) // the last report tells whether there is anybody to report to
		case <-done:
			return errors.Join(work.Wait(), l.report(a))
		}
	}
}

func (l *link) report(a *agent) error {
	return l.call(context.Background(), "report", News{l.index, a.stats()}, &struct{}{})
}

func (l *link) read(name lockagent.Name, token lockagent.Token) (int64, error) {
	var out Outcome
	err := l.call(context.Background(), "read", Operation{Lock: name, Token: token}, &out)
	return out.Value, errors.Join(err, out.err())
}

func (l *link) write(name lockagent.Name, token lockagent.Token, value int64) error {
	var out Outcome
	err := l.call(context.Background(), "write", Operation{name, token, value}, &out)
	return errors.Join(err, out.err())
}

func (o Outcome) err() error {
	if o.Stale {
		return errStale
	}
	return nil
}

// call calls the hub by name. The hub is in a process of this machine, which either answers or ends.
func (l *link) call(ctx context.Context, name string, args, result any) error {
	text, err := json.Marshal(args)
	if err != nil {
		return fmt.Errorf("demo: %s: %w", name, err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://hub/"+name, bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("demo: %s: %w", name, err)
	}
	answer, err := l.client.Do(r)
	if err != nil {
		return fmt.Errorf("demo: %s: %w", name, err)
	}
	defer answer.Body.Close()
	text, err = io.ReadAll(answer.Body)
	switch {
	case err != nil:
	case answer.StatusCode != http.StatusOK:
		err = errors.New(strings.TrimSpace(string(text)))
	default:
		err = json.Unmarshal(text, result)
	}
	if err != nil {
		return fmt.Errorf("demo: %s: %w", name, err)
	}
	return nil
}

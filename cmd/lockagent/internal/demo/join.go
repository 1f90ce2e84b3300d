package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/rpc"
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

	client, err := rpc.Dial("unix", inv.Hub)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	far := &link{client: client, index: inv.Index}
	a, err := inv.agent(ctx, far, logger, telemetry)
	if err != nil {
		return errors.Join(err, client.Close())
	}
	defer showPublishing(a.stats, telemetry)()
	return errors.Join(far.attend(ctx, a), client.Close())
}

func (inv invitation) agent(ctx context.Context, far *link, logger *slog.Logger, telemetry tracing.Config) (*agent, error) {
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
	client *rpc.Client
	index  int
}

var _ counters = (*link)(nil)

// attend runs the agent from the moment that the hub says, and reports what it
// does, also after its end.
func (l *link) attend(ctx context.Context, a *agent) error {
	var none bool
	begin := l.client.Go(serviceName+".Ready", Hello{l.index, a.id()}, &none, make(chan *rpc.Call, 1))
	select {
	case <-begin.Done:
		if begin.Error != nil {
			return errors.Join(fmt.Errorf("demo: %w", begin.Error), a.close())
		}
	case <-ctx.Done():
		return a.close()
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
	var none bool
	return l.call("Report", News{l.index, a.stats()}, &none)
}

func (l *link) read(name lockagent.Name, token lockagent.Token) (int64, error) {
	var out Outcome
	err := l.call("Read", Operation{Lock: name, Token: token}, &out)
	return out.Value, errors.Join(err, out.err())
}

func (l *link) write(name lockagent.Name, token lockagent.Token, value int64) error {
	var out Outcome
	err := l.call("Write", Operation{name, token, value}, &out)
	return errors.Join(err, out.err())
}

func (o Outcome) err() error {
	if o.Stale {
		return errStale
	}
	return nil
}

func (l *link) call(method string, args, reply any) error {
	if err := l.client.Call(serviceName+"."+method, args, reply); err != nil {
		return fmt.Errorf("demo: %s: %w", method, err)
	}
	return nil
}

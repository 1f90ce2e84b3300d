package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/lockagent/lockagent/bench/contender"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/memstore"
	lockagentv1 "github.com/lockagent/lockagent/proto/lockagent/v1"
	"github.com/lockagent/lockagent/proto/lockagent/v1/lockagentv1connect"
)

// socketProtocols are those that clients of the socket speak.
var socketProtocols = []string{"h1", "h2"}

// overSocket measures an acquire and its release over the API of the daemon, beside calls that do nothing.
func (b *bench) overSocket(ctx context.Context) (err error) {
	t := &table{
		Name:  "socket",
		Title: "Own lock through the socket of the daemon, a stream for the claim and a call for its release, 1 client",
		Notes: []string{
			"A claim is a stream: Acquire, until Granted is there; Release, until it is answered; and the end of the stream. " +
				"The daemon is `lockagent serve` without Redis, a process of its own, with its journal and its event log. " +
				"`" + emptyCalls +
				"` is a process with the same API that does nothing: a stream without a message, and a call, one after the " +
				"other. `" + storeAlone +
				"` is an acquire and its release on the store in memory, in this process. The ratio is that of the cycle less " +
				"the store's part to the empty calls.",
		},
	}
	for _, p := range socketProtocols {
		name := map[string]string{"h1": "HTTP/1.1", "h2": "HTTP/2"}[p]
		t.Columns = append(
			t.Columns, column{Key: "us-" + p, Title: name + ", µs"}, column{Key: "x-" + p, Title: "x empty", Spread: true},
		)
	}
	b.results.Tables = append(b.results.Tables, t)
	d, err := b.startDaemon(ctx)
	if err != nil {
		return err
	}
	defer d.end()
	socket := d.dir + "/empty.sock"
	empty, err := startWorker(ctx, task{Role: "empty", Addr: socket})
	if err != nil {
		return err
	}
	defer empty.end()
	if err := empty.hear(new(string)); err != nil {
		return err
	}
	store, shut, err := storeCycle(ctx)
	if err != nil {
		return err
	}
	defer shut()
	floor, alone, found := newSeries(), newSeries(), newSeries()
	for _, p := range socketProtocols {
		calls, cycles := overHTTP(socket, p), overHTTP(d.socket(), p)
		defer calls.transport.CloseIdleConnections()
		defer cycles.transport.CloseIdleConnections()
		nothing := func() error { return calls.nothing(ctx) }
		cycle := b.wasting(func() error { return cycles.cycle(ctx) })
		for range b.plan.OurRounds {
			window := b.plan.Window / 2
			base, _, err := timed(window, nothing)
			if err != nil {
				return fmt.Errorf("empty calls: %w", err)
			}
			inside, _, err := timed(window/4, store)
			if err != nil {
				return fmt.Errorf("the store alone: %w", err)
			}
			ns, _, err := timed(window, cycle)
			if err != nil {
				return err
			}
			const us = 1e3
			floor.add("us-"+p, base/us)
			alone.add("us-"+p, inside/us)
			found.add("us-"+p, ns/us)
			found.add("x-"+p, (ns-inside)/base)
		}
	}
	t.Rows = []*row{floor.row(emptyCalls), alone.row(storeAlone), found.row(contender.Lockagent)}
	return nil
}

const (
	emptyCalls = "floor: empty calls"
	storeAlone = "the store alone"
)

// storeCycle is an acquire and its release on a store in memory.
func storeCycle(ctx context.Context) (cycle func() error, shut func(), err error) {
	store := memstore.New()
	locks, err := channelapi.New(channelapi.Config{Store: store})
	if err != nil {
		return nil, nil, err
	}
	lock := locks.Lock("bench/socket")
	return func() error {
			grant, err := lock.Acquire(ctx)
			if err != nil {
				return err
			}
			return grant.Release(ctx)
		}, func() {
			_ = locks.Close() // it holds nothing
			_ = store.Close()
		}, nil
}

// socketClient speaks the API over a socket.
type socketClient struct {
	lockagentv1connect.LockServiceClient
	transport *http.Transport
}

func overHTTP(socket, protocol string) socketClient {
	var protocols http.Protocols
	protocols.SetHTTP1(protocol == "h1")
	protocols.SetUnencryptedHTTP2(protocol == "h2")
	transport := &http.Transport{
		Protocols: &protocols, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}
	return socketClient{
		lockagentv1connect.NewLockServiceClient(&http.Client{Transport: transport}, "http://lockagent"), transport,
	}
}

// cycle acquires a lock and releases it.
func (c socketClient) cycle(ctx context.Context) error {
	stream, err := c.Acquire(ctx, &lockagentv1.AcquireRequest{Name: "bench/socket"})
	if err != nil {
		return err
	}
	// The request waits if it comes just when the lock has rested for long enough and goes back to Redis.
	for more := true; stream.Msg().GetGranted() == nil; more = stream.Receive() {
		if !more {
			return errors.Join(errors.New("the stream ended before a grant"), stream.Err(), stream.Close())
		}
	}
	granted := stream.Msg().GetGranted()
	if _, err := c.Release(ctx, &lockagentv1.ReleaseRequest{
		Claim: granted.GetClaim(), Secret: granted.GetSecret(),
	}); err != nil {
		return errors.Join(err, stream.Close())
	}
	return toEnd(stream)
}

// nothing makes a stream and a call that do nothing.
func (c socketClient) nothing(ctx context.Context) error {
	stream, err := c.Acquire(ctx, &lockagentv1.AcquireRequest{})
	if err != nil {
		return err
	}
	if err := toEnd(stream); err != nil {
		return err
	}
	_, err = c.Release(ctx, &lockagentv1.ReleaseRequest{})
	return err
}

// toEnd reads what is left of a stream.
func toEnd(stream *connect.ServerStreamForClient[lockagentv1.ClaimEvent]) error {
	for stream.Receive() {
	}
	return errors.Join(stream.Err(), stream.Close())
}

// emptyWorker serves the API on a socket, and does nothing.
func emptyWorker(_ context.Context, t *task, parent *conversation) error {
	listener, err := net.Listen("unix", t.Addr)
	if err != nil {
		return err
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	mux := http.NewServeMux()
	mux.Handle(lockagentv1connect.NewLockServiceHandler(emptyService{}))
	server := &http.Server{Handler: mux, Protocols: &protocols, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	if err := parent.say("ready"); err != nil {
		return err
	}
	_ = parent.hear(new(string)) // until the conversation ends
	if err := server.Close(); err != nil {
		return err
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

type emptyService struct {
	lockagentv1connect.UnimplementedLockServiceHandler
}

// Acquire implements [lockagentv1connect.LockServiceHandler].
func (emptyService) Acquire(
	context.Context, *lockagentv1.AcquireRequest, *connect.ServerStream[lockagentv1.ClaimEvent],
) error {
	return nil
}

// Release implements [lockagentv1connect.LockServiceHandler].
func (emptyService) Release(context.Context, *lockagentv1.ReleaseRequest) (*lockagentv1.ReleaseResponse, error) {
	return &lockagentv1.ReleaseResponse{}, nil
}

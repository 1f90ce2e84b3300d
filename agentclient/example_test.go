//go:build linux

package agentclient_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/lockagent/lockagent/agentclient"
	"github.com/lockagent/lockagent/channelapi"
	"github.com/lockagent/lockagent/internal/daemon"
	"github.com/lockagent/lockagent/internal/daemon/socket"
	"github.com/lockagent/lockagent/memstore"
)

func ExampleDial() {
	path, stop := serve() // as "lockagent serve" does
	defer stop()

	ctx := context.Background()
	locks, err := agentclient.Dial(ctx, path)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = locks.Close() }()

	lock := locks.Lock("orders/42")
	err = lock.Do(ctx, func(ctx context.Context, g channelapi.Grant) error {
		fmt.Println("held:", g.Held(), "by this process:", g.Owner() != "", "token:", g.Token() != 0)
		_, err := lock.TryAcquire(ctx)
		fmt.Println("once more:", err != nil)
		return nil
	})
	fmt.Println("done:", err)
	// Output:
	// held: true by this process: true token: true
	// once more: true
	// done: <nil>
}

// serve starts a daemon.
func serve() (path string, stop func()) {
	dir, err := os.MkdirTemp("", "lac")
	if err != nil {
		log.Fatal(err)
	}
	path = filepath.Join(dir, "agent.sock")
	listener, err := socket.Listen(socket.Config{Path: path})
	if err != nil {
		log.Fatal(err)
	}
	d, err := daemon.Start(daemon.Config{Listener: listener, Store: memstore.New(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	return path, func() {
		_ = d.Shutdown(context.Background())
		_ = os.RemoveAll(dir)
	}
}

package contender

import (
	"context"

	"github.com/lockagent/lockagent/agentclient"
	"github.com/lockagent/lockagent/channelapi"
)

// Daemon is lockagent through the daemon of the host. It is not among [Kinds]: the address that it opens is the path of
// a daemon's socket, and not that of Redis.
var Daemon = Kind{
	Name: "lockagent-daemon", Family: Lockagent, Waits: true,
	Setup: "agentclient.Dial, as it comes, in each process; `lockagent serve` with its defaults, and with `--redis` " +
		"where others use Redis",
	Open: func(ctx context.Context, socket string) (Contender, error) {
		locks, err := agentclient.Dial(ctx, socket)
		if err != nil {
			return nil, err
		}
		return daemonLocks{locks}, nil
	},
}

type daemonLocks struct{ locks *channelapi.Locks }

// Lock implements [Contender].
func (d daemonLocks) Lock(ctx context.Context, name string) (Held, error) {
	grant, err := d.locks.Lock(name).Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return &agentHeld{grant}, nil
}

// Close implements [Contender].
func (d daemonLocks) Close() { _ = d.locks.Close() } // what could not be given back ends with the connection

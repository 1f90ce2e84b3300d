package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/transport"
)

const (
	// DefaultReplicaTimeout is that of a [Config].
	DefaultReplicaTimeout = 500 * time.Millisecond

	// mostReplicas bounds MinReplicas: a master with more replicas would do little else than feed them.
	mostReplicas = 100
)

// mostReplicaTimeout bounds ReplicaTimeout. While a server waits for its replicas, it owes an answer. The
// other half of that time is for the server and the network.
func (c Config) mostReplicaTimeout() time.Duration { return min(c.SilenceTimeout, c.CallTimeout/2) / 2 }

// validateReplicas refuses wrong settings of replicas.
func (c Config) validateReplicas(refuse func(option, format string, args ...any)) {
	switch {
	case c.MinReplicas < 0:
		refuse("MinReplicas", "%d is negative; leave it out not to ask the replicas", c.MinReplicas)
	case c.MinReplicas > mostReplicas:
		refuse(
			"MinReplicas", "%d is more than %d; use 1, or 2 if a master has at least 3 replicas", c.MinReplicas,
			mostReplicas,
		)
	}
	switch most := c.withDefaults().mostReplicaTimeout(); {
	case c.ReplicaTimeout < 0:
		refuse("ReplicaTimeout", "%v is negative; leave it out for %v", c.ReplicaTimeout, DefaultReplicaTimeout)
	case c.ReplicaTimeout > most && c.SilenceTimeout >= 0 && c.CallTimeout >= 0:
		refuse(
			"ReplicaTimeout",
			"%v is longer than %v, which is half of SilenceTimeout or a quarter of CallTimeout: the connection "+
				"would be cut meanwhile; make it shorter, or the others longer",
			c.ReplicaTimeout, most,
		)
	}
}

// countReplicas has the families ask how many replicas know of a tenure. Nobody holds a latch.
func (s *Store) countReplicas() {
	for _, f := range s.families {
		if s.minReplicas > 0 && f.holds == nil {
			f.acquires.replicas = func(r *lockagent.AcquireReply) *int { return &r.Replicas }
			f.renewals.replicas = func(r *lockagent.RenewReply) *int { return &r.Replicas }
			f.reasserts.replicas = f.renewals.replicas
		}
	}
}

// replicatedAcquire wraps done of an Acquire: it gives back what too few replicas know of.
func (s *Store) replicatedAcquire(
	req *lockagent.AcquireRequest, done func(lockagent.AcquireReply, error),
) func(lockagent.AcquireReply, error) {
	given := lockagent.ReleaseRequest{Name: req.Name, Kind: req.Kind, Tenure: req.Tenure}
	return func(reply lockagent.AcquireReply, err error) {
		if err != nil || !reply.Granted || reply.Replicas >= s.minReplicas {
			done(reply, err)
			return
		}
		tooFew := &lockagent.ReplicasError{Name: given.Name, Acknowledged: reply.Replicas, Wanted: s.minReplicas}
		// The Acquire was answered, so it cannot arrive later than this Release.
		s.Release(context.Background(), given, func(_ lockagent.ReleaseReply, failed error) {
			switch {
			case failed == nil:
				done(lockagent.AcquireReply{}, tooFew)
			case lockagent.Definite(failed):
				done(lockagent.AcquireReply{}, failed)
			default: // the tenure may have the lock, so the agent must not forget it
				err = fmt.Errorf("%w; %v", failed, tooFew) //nolint:errorlint // it is not that error
				done(lockagent.AcquireReply{}, err)
			}
		})
	}
}

// replicatedRenew wraps done of a Renew. The lease that too few replicas know of does not count.
func (s *Store) replicatedRenew(
	name lockagent.Name, done func(lockagent.RenewReply, error),
) func(lockagent.RenewReply, error) {
	return func(reply lockagent.RenewReply, err error) {
		if err == nil && reply.Held && reply.Replicas < s.minReplicas {
			reply, err = lockagent.RenewReply{}, &lockagent.ReplicasError{
				Name: name, Acknowledged: reply.Replicas, Wanted: s.minReplicas, Renewal: true,
			}
		}
		done(reply, err)
	}
}

// rehearseReplicas tries whether the user may run WAIT.
func (s *Store) rehearseReplicas(ctx context.Context, slot uint16) error {
	node := s.servers.Master(slot)
	if s.minReplicas == 0 || node == nil {
		return nil
	}
	return transport.Error(node.Ask(ctx, "WAIT", "0", "1").Err())
}

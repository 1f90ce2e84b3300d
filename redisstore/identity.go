package redisstore

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"

	"github.com/lockagent/lockagent"
	"github.com/lockagent/lockagent/redisstore/internal/script"
)

// identity is that of the store. The servers keep it in a key, see [script.IdentityKey].
type identity struct {
	given string // what the store becomes if it has no identity
	known atomic.Pointer[string]
}

// Identity implements [lockagent.History]. It is known after [Open], unless nodes of a Cluster were
// down. It is empty if another program has spoilt the key.
func (s *Store) Identity() string {
	if known := s.identity.known.Load(); known != nil {
		return *known
	}
	return ""
}

// looking returns a function that looks at the servers by look, and then asks for the identity.
func (s *Store) looking(look func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := look(ctx)
		if err == nil || s.room.Cluster() { // in a Cluster, the key may be on a node that is up
			err = errors.Join(err, s.identify())
		}
		return err
	}
}

// warning returns look, which logs the first time that the user may not look.
func (s *Store) warning(look func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := look(ctx)
		if errors.Is(err, lockagent.ErrNotPermitted) {
			s.blind.Do(func() {
				s.logger.Warn("lockagent: the user may not look whether Redis has forgotten anything, so the store "+
					"learns of that late: give the user the access rules in the documentation of package redisstore",
					"error", err)
			})
		}
		return err
	}
}

// identify asks for the identity. If the servers have lost it, they get it again. Another agent
// may have been faster with another one: then the store takes that, and tells.
func (s *Store) identify() error {
	former := s.Identity()
	var c script.Call
	s.room.Identity(&c, s.wanted())
	text, err := s.await(&c, s.slot(script.IdentityKey))
	if err != nil {
		return err
	}
	found, at, err := script.ReadIdentity(text)
	if err != nil || found == "" || found == former {
		return err
	}
	s.identity.known.Store(&found)
	if former != "" {
		name, _ := s.incarnations.known(s.shard(s.slot(script.IdentityKey)))
		s.incarnations.report(lockagent.Reset{
			From: name, To: name, Reason: "other identity", After: at, Before: at, Store: former,
		})
	}
	return nil
}

// wanted is what the store's identity becomes if it has none.
func (s *Store) wanted() string { return cmp.Or(s.Identity(), s.identity.given) }

// Time implements [lockagent.History]. The script that reads the identity tells the time of its server.
func (s *Store) Time(_ context.Context, done func(lockagent.StoreTime, error)) {
	var c script.Call
	s.room.Identity(&c, s.wanted())
	s.send(&c, s.slot(script.IdentityKey), func(text string, err error) {
		var at lockagent.StoreTime
		if err == nil {
			_, at, err = script.ReadIdentity(text)
		}
		done(at, err)
	})
}

package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockagent/lockagent"
)

// Defaults of a [Config].
const (
	DefaultDialTimeout    = 5 * time.Second
	DefaultCallTimeout    = 5 * time.Second
	DefaultSilenceTimeout = time.Second
	DefaultClientName     = "lockagent"
	DefaultGraceFirst     = 2 * time.Second
)

// NoGraceFirst is a [Config.GraceFirst] without a grace period at the first start.
const NoGraceFirst time.Duration = -1

// GraceMode says whether a new incarnation begins with a grace period. The zero GraceMode is GraceOn.
type GraceMode uint8

// The values of [Config.Grace].
const (
	GraceOn GraceMode = iota
	GraceOff
)

// Config says how a store uses Redis. The zero Config is usable. Where Redis is
// stands in the URL.
type Config struct {
	// DialTimeout bounds [Config.Open], and later each attempt to make a connection.
	// Defaults to [DefaultDialTimeout].
	DialTimeout time.Duration

	// CallTimeout bounds each call of the store: a call without an answer by then ends with
	// [lockagent.ErrStoreUnavailable]. A renewal may first wait for others to travel with,
	// see [Store.Renew]. The timeout does not cover that wait. Make it shorter than a third of
	// the shortest lease that is renewed, so that a renewal can be tried again in time.
	// Defaults to [DefaultCallTimeout].
	CallTimeout time.Duration

	// SilenceTimeout is how long a server may owe an answer. Then the store cuts the
	// connection, because the server may hang, or the network lose everything. The calls on
	// the connection end with [lockagent.ErrStoreUnavailable]. The next connection may lead to
	// a better server. While no answer is due, the connection is probed every 10 s. Make the
	// timeout longer if the server runs slow commands of other programs. Defaults to
	// [DefaultSilenceTimeout], or to half of CallTimeout if that is less.
	SilenceTimeout time.Duration

	// MinReplicas is how many replicas have to know of a tenure. The store grants a lock only when so many replicas of
	// its master have acknowledged the grant. It counts a renewal only if they have acknowledged the renewal. Then a
	// failover to one of them forgets nothing. If too few acknowledge it within ReplicaTimeout, the grant is given
	// back, and the error is a [*lockagent.ReplicasError]. If they stay away for as long as a lease, holders lose their
	// locks. So have at least one replica more than this. See the documentation of the package for what it does not
	// promise. [lockagent.Grant.Replicas] tells the number. All programs should use the same. Defaults to 0: the store
	// does not ask the replicas.
	MinReplicas int

	// ReplicaTimeout is how long the server waits for its replicas. Every call on the
	// connection waits with it. It must not be longer than half of SilenceTimeout, or a quarter of
	// CallTimeout. It means nothing without MinReplicas. Defaults to [DefaultReplicaTimeout], or to the
	// longest possible if that is less.
	ReplicaTimeout time.Duration

	// Grace says whether a new incarnation of the store begins with a grace period, see [lockagent.Grace]: meanwhile
	// nothing new is granted, and the holders come back. The zero value is GraceOn. GraceOff is for those who prefer an
	// overlap to waiting, and counts if all programs have it.
	Grace GraceMode

	// GraceFirst is how long the grace period lasts if nobody knew the database before: it has no data, and no agent
	// is connected. Such a database is new, or has lost its data while all agents were away. Make it as long as the
	// longest lease if the second must cost no overlap. It is at most [lockagent.MaxLease]. Defaults to
	// [DefaultGraceFirst]. [NoGraceFirst] is for no such period, as in tests.
	GraceFirst time.Duration

	// Credentials, if not nil, is asked for the user and the password at each connection to a server, in place of
	// those in the URL. It is for passwords that change, such as tokens that expire. A server that refuses them may
	// take the next ones: such a call ends with [lockagent.ErrStoreUnavailable], which is not definite. Only Open ends
	// with [lockagent.ErrNotPermitted]. An empty user is the default user. Connections that stand are not
	// asked again, and go on until the server ends them.
	//
	// Calls wait for Credentials, so let it answer from memory. It may be called from several goroutines at a time. ctx
	// ends with the time for the connection, and when the store is closed. The store waits no longer, also if the
	// function goes on. No more than 16 calls of it run at a time for one server. The function must not use the store:
	// it may wait for the connection that waits for it. If it panics or ends its goroutine, the attempt to connect has
	// failed, and the next one asks again. A panic is logged.
	// Sentinels get the user and the password of the URL. Defaults to nil.
	Credentials func(ctx context.Context) (user, password string, err error)

	// TLS is the client's side of a rediss:// URL, for private certificates. For its functions the same holds as for
	// Credentials. Defaults to one that trusts what the system trusts.
	TLS *tls.Config

	// Logger gets the warnings of [Config.Open] about dangerous settings of the servers, and what
	// the store cannot tell by an error. Defaults to [slog.Default].
	Logger *slog.Logger

	// ClientName is how the server lists the connections. It has no spaces.
	// Defaults to [DefaultClientName].
	ClientName string
}

func (c Config) withDefaults() Config {
	if c.DialTimeout == 0 {
		c.DialTimeout = DefaultDialTimeout
	}
	if c.CallTimeout == 0 {
		c.CallTimeout = DefaultCallTimeout
	}
	if c.SilenceTimeout == 0 {
		c.SilenceTimeout = min(DefaultSilenceTimeout, c.CallTimeout/2)
	}
	if c.ReplicaTimeout == 0 {
		c.ReplicaTimeout = min(DefaultReplicaTimeout, c.mostReplicaTimeout())
	}
	if c.GraceFirst == 0 {
		c.GraceFirst = DefaultGraceFirst
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.ClientName == "" {
		c.ClientName = DefaultClientName
	}
	return c
}

// validate returns all errors of the Config, joined.
func (c Config) validate() error {
	var wrong []error
	refuse := func(option, format string, args ...any) {
		reason := fmt.Sprintf(format, args...)
		wrong = append(wrong, &lockagent.OptionError{Option: "redisstore.Config." + option, Reason: reason})
	}
	if c.DialTimeout < 0 {
		refuse("DialTimeout", "%v is negative; leave it out for %v", c.DialTimeout, DefaultDialTimeout)
	}
	if c.CallTimeout < 0 {
		refuse("CallTimeout", "%v is negative; leave it out for %v", c.CallTimeout, DefaultCallTimeout)
	}
	if c.SilenceTimeout < 0 {
		refuse("SilenceTimeout", "%v is negative; leave it out for %v", c.SilenceTimeout, DefaultSilenceTimeout)
	}
	c.validateReplicas(refuse)
	if c.Grace > GraceOff {
		refuse("Grace", "there is no mode %d; use GraceOn or GraceOff", c.Grace)
	}
	if (c.GraceFirst < 0 && c.GraceFirst != NoGraceFirst) || c.GraceFirst > lockagent.MaxLease {
		refuse(
			"GraceFirst", "%v is not between 0 and %v; leave it out for %v, or use NoGraceFirst for none", c.GraceFirst,
			lockagent.MaxLease, DefaultGraceFirst,
		)
	}
	for _, r := range c.ClientName {
		if r <= ' ' || r > '~' {
			refuse("ClientName", "%q has a character that Redis does not take; use letters, digits and punctuation, "+
				"without spaces", c.ClientName)
			break
		}
	}
	return errors.Join(wrong...)
}

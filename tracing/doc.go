// Package tracing shows what an agent does as OpenTelemetry spans and metrics. It
// wraps the two ports of the dictionary: [Recorder] sees every step in the life of
// a lock, and [Store] every call to the store.
//
// # Usage
//
//	store, err := redisstore.Open(ctx, "redis://localhost:6379")
//	locks, err := channelapi.New(channelapi.Config{
//		Store:    tracing.Store(store, tracing.Config{System: "redis"}),
//		Recorder: tracing.Recorder(publisher, tracing.Config{}),
//	})
//
// The package uses the API of OpenTelemetry alone. What happens to spans and
// metrics is up to the SDK that the program installs, before or after.
//
// # Spans
//
//	acquire          from the request to its grant or refusal; child of the span in
//	                 the context of the request
//	hold             from the grant to the end of the hold; child of acquire
//	release          the moment at which the owner gave a grant up; child of hold
//	EVALSHA acquire  a call to Redis, of kind client; also EVALSHA renew, EVALSHA
//	                 release, EVALSHA break, EVALSHA inspect, EVALSHA latch,
//	                 EVALSHA permits; store acquire and so on
//	                 if the store is another one; child of the span in the context of
//	                 the call
//	publish LOCKAGENT
//	                 what an agent sends to the stream of that name at once, until
//	                 the stream has it; of kind producer; the root of a trace
//
// A hold that follows another one has a link, with lockagent.how as its attribute:
//
//	handoff          to the release of the hold before it, or to that hold if nobody
//	                 released it: the agent handed the lock off
//	pass             to the call with which another agent released the lock: the
//	                 store passed it
//
// The span of an acquire has an event when the request is queued, and that of a
// hold when a renewal failed. An acquire that timed out or was refused, and a hold
// that expired, was lost or broken, have the status of an error.
//
// Attributes are lockagent.lock.name, lockagent.owner, lockagent.agent.id,
// lockagent.token, lockagent.tenure, lockagent.how and lockagent.outcome, and
// lockagent.replicas if the store asks its replicas. Spans of
// store calls follow the semantic conventions for databases: db.operation.name,
// db.stored_procedure.name, db.system.name, server.address, server.port, error.type.
// A store serves many calls with one command, so that these spans are not those of
// commands. Spans of sendings come from [Sending]. They follow the conventions for
// messaging: messaging.system, messaging.operation.name, messaging.operation.type,
// messaging.destination.name, messaging.batch.message_count, server.address,
// server.port, error.type. They have lockagent.records, too: a message has several
// records of one lock.
//
// Only an acquire or a sending begins a trace, and the sampler decides about it. There
// are no spans below a span that is not sampled, whatever the sampler. A store call
// whose context has no span has none itself.
//
// # Events
//
// A [Recorder] gives each event the trace context of the span that it belongs to. Up to
// the answer of a request that is acquire, and from there on hold. Without such a span an
// event has the trace context of the request's caller. So a program without an SDK passes
// on what it was called with. A trace that is not sampled is not mentioned.
//
// # Metrics
//
// The name of a lock is never an attribute of a metric.
//
//	lockagent.lock.acquire.duration   histogram, s, by outcome: granted, reentered,
//	                                  timedout, cancelled, refused
//	lockagent.lock.hold.duration      histogram, s, by outcome: released, expired,
//	                                  lost, broken, unclaimed
//	lockagent.lock.handoff.duration   histogram, s: from the end of a hold to the
//	                                  grant that the agent made in its place without
//	                                  the store; its count is that of the hand-offs
//	lockagent.lock.grants             counter, {hold}, by how: store, handoff, rest. A
//	                                  hold that is handed off, or granted from a lock
//	                                  that rests, saves an acquire and a release in
//	                                  the store
//	lockagent.lock.rests              counter, {tenure}: tenures that may rest
//	lockagent.lock.recalls            counter, {call}: attempts that met a lock which
//	                                  may rest in another agent, and recalled it
//	lockagent.lock.waiters            up-down counter, {request}: queued requests
//	lockagent.lock.held               up-down counter, {hold}
//	lockagent.lock.losses             counter, {hold}, by reason: deadline, denied,
//	                                  expired, broken, closed, sessionclosed,
//	                                  unclaimed, internal, identity, unknown
//	lockagent.lock.renewals           counter, {call}, by outcome: confirmed, denied,
//	                                  failed
//	lockagent.lock.trust.remaining    histogram, s: for how long the lease was still
//	                                  trusted when a renewal was confirmed, just
//	                                  before it counted, or began to fail
//	lockagent.store.call.duration     histogram, s, by operation (acquire, renew,
//	                                  release, latch, break, inspect, permits) and outcome (granted,
//	                                  held, confirmed, denied, released, over,
//	                                  broken, free, changed, unchanged; unavailable,
//	                                  grace, wrongtype, notpermitted, notokens,
//	                                  closed, withdrawn, error)
//	lockagent.store.refusals          counter, {call}, by outcome: wrongtype,
//	                                  notpermitted, notokens
//	lockagent.store.grace.duration    histogram, s: for how long the store granted
//	                                  nothing new. Each agent that notices records it,
//	                                  and counts the beginnings below: kind gracebegan
//	lockagent.events.recorded         counter, {event}, by kind
//	lockagent.events.published        counter, {event}
//	lockagent.events.dropped          counter, {event}
//	lockagent.events.queued           up-down counter, {event}
//
// The rests, recalls, renewals and store calls come from [Store], what was published, dropped
// and queued from [Publishing], all others from [Recorder].
// What began before an SDK was there is not measured.
//
// # Concurrency
//
// Both decorators are safe for concurrent use as the ports demand it. Without an
// SDK they cost nanoseconds, remember nothing, and allocate nothing but the trace
// contexts of callers.
package tracing

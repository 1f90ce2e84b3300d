// Package redisstore is a [lockagent.Store] on Redis: agents on many hosts, and
// programs that use Redisson, contend for the same locks through it.
//
// # Usage
//
//	store, err := redisstore.Open(ctx, "redis://localhost:6379")
//	if err != nil {
//		return err
//	}
//	defer store.Close()
//
// One URL says where Redis is and how to get in:
//
//	redis://host:6379                                  one server
//	redis://user:password@host:6379/1                  with an ACL user, database 1
//	redis://:password@host:6379                        with a password only
//	rediss://host:6379                                 with TLS
//	unix:///run/redis.sock?db=1                        through a Unix socket
//	redis://host1:6379?addr=host2:6379&addr=host3:6379 a Cluster
//	redis://host1:26379?addr=host2:26379&master_set=m  Sentinels that watch m
//
// Any one node of a Cluster will do; more addresses help when that one is down.
// Sentinels have a user and a password of their own, sentinel_user and
// sentinel_password. skip_verify=true accepts any certificate. Special characters
// in a password are escaped: %40 for @, %2F for /, %3A for a colon, %25 for %.
// [Config] has the rest.
//
// Redis 6.2 or newer is needed, or a server that speaks like it.
//
// # Guarantees
//
// The store passes package storetest, the contract of every store. Beyond that:
//
//   - Every call is made by a script, so it happens at once or not at all, and on the
//     server's clock only. A call that was made alone is one command. Calls that
//     come while others are under way travel together: those that acquire are one
//     command, and so are those that release; in a Cluster one for each slot.
//     Renewals are gathered, up to 100 in one command. The failure of one never
//     touches its neighbours.
//   - A call is answered within [Config.CallTimeout], and at once when the store is
//     closed. After ErrStoreUnavailable the caller makes the same call again, which is
//     safe.
//   - Each server has a connection for calls of its own, so that none waits for another
//     server. It is looked at before it is used, where the system lets it be (not on
//     Windows), so that no call suffers for its loss meanwhile.
//   - All subscriptions of a store share one connection; with sharded messages, one more
//     for each node. When it is lost, it is made again within about a second of the server
//     being back, everything is subscribed again, everybody who waits is woken, and the
//     agent is told that messages were missed. So they are when the server turns out to
//     have lost its data.
//   - What is written is what Redisson writes for an RLock, and what it publishes
//     is heard. Its clients see the lock of a [lockagent.Tenure] as one that is
//     held once, by the client with the agent's id and the thread with its number.
//   - [Open] runs every command that the store is going to need. A user who lacks
//     one of them hears it there.
//
// # Failures
//
// These heal within the call that meets them: a script that the server has forgotten, a
// slot that has moved or is on its way, a master that was demoted if the address leads to
// another one by now. What a server refuses otherwise reaches the caller with an advice.
//
// A server that hangs keeps a call for [Config.SilenceTimeout] at most. Then the connection
// is cut, and the next call makes another one. Sentinels and nodes of a Cluster are asked
// every 2 s, and whenever something fails, who serves now; Sentinels also announce it. When
// another server serves, the connections to the old one are cut, and calls that wait for
// it go to the new one. All Sentinels are followed at once. One that lags behind the others
// is not believed.
//
// # Not guaranteed
//
// Redis replicates asynchronously. A master that fails may take with it what it
// had confirmed, and its replica then grants a lock that is held. The store tells
// that the server is another one ([Store.OnReset]) when it next hears from it;
// the tokens of the new grants are greater all the same, so a resource that checks
// them is safe.
//
// A master that is cut off from its Sentinels or from the Cluster goes on granting locks to
// programs that still reach it, until it hears that it was replaced. For some seconds there are
// two masters. With min-replicas-to-write 1 and min-replicas-max-lag 2 the old one soon
// refuses; [Open] warns where Sentinels watch a master without that.
//
// A server that evicts keys when its memory is full may evict locks. Run it with
// the maxmemory-policy noeviction; [Open] warns otherwise.
//
// A user who may subscribe or publish to some channels and not to others is not
// told so. Waiters then depend on the end of the lease. So do they when some of the
// programs in a Cluster use sharded messages and others do not, see [Sharded].
//
// Services that are several servers behind one address, and no Cluster, are found by what
// they refuse: keys in different slots. They are used like a Cluster with classic messages,
// and nothing tells of a reset.
//
// An acquire that a network delays for more than a minute after its tenure was
// withdrawn still takes effect, for one lease.
//
// While a slot of a Cluster moves to another node, its locks are acquired and released
// one by one. There are no places in a queue, no passes and no tombstones then, and tokens
// depend on the clocks of the two nodes.
//
// # Keys
//
// For a lock called N, in its hash slot. If N has a '{' its tag is N's own, and
// N takes the place of {N}; our own keys have two colons then.
//
//	key or channel              what                             lives
//	N                           hash: <agent>:<number> = 1       for the lease
//	lockagent_queue:{N}         zset: who waits, by arrival      5 minutes; see Queues
//	lockagent_notes:{N}         zset: withdrawn tenures, and     1 minute
//	                            until when outsiders go first
//	lockagent_turn:{N}          passes since the outsiders' turn see Queues
//	redisson_lock__channel:{N}  channel: "0" at every release that frees the lock
//	lockagent_agents:{N}        channel: nothing; who subscribes to the one above and
//	                            not to this one is an outsider
//	lockagent_agent:<agent>     channel: messages to an agent. In a Cluster with sharded
//	                            messages those of passes come on <channel>:{N}
//
// For all locks together, or in a Cluster for those of one slot, with the slot's tag:
//
//	lockagent_clock             zset: the incarnation, with the  for ever
//	                            greatest time or token
//	lockagent_ahead             by how much that clock is ahead  for ever
//	                            of the server's; seldom there
//	lockagent_incarnation       channel: a message when another incarnation begins; not in
//	                            a Cluster
//
// No lock can have a name that begins with lockagent_ or redisson_. A user for the store
// needs these rules, with a pattern for the names of the locks in place of the first:
//
//	~orders/* ~lockagent_* &redisson_lock__channel* &redisson_rwlock* &lockagent_* -@all
//	+eval +evalsha +info +time +ping +select
//	+get +mget +set +incr +del +exists +pexpire +pttl
//	+hset +hdel +hexists +hscan +lrange
//	+zadd +zcard +zscore +zmscore +zrange +zrangebyscore +zrem
//	+publish +subscribe +unsubscribe +pubsub|numsub
//
// and in a Cluster also
//
//	+cluster|slots +cluster|myid +asking
//	+spublish +ssubscribe +sunsubscribe +pubsub|shardnumsub
//
// A user for Sentinels needs +sentinel, +subscribe and +ping.
//
// # Queues
//
// Each lock has a queue, as [lockagent.Store] describes it. A release passes the lock to the
// first in the queue whose agent is subscribed to its channel, among the first eight. If the
// process of that agent does not run, the lock is free after [lockagent.PassLease].
//
// Outsiders, such as programs that use Redisson, are counted by the channels that they are
// subscribed to. With Sentinels some may be subscribed to a replica, where nobody sees them:
// let Redisson subscribe at the master, which is its default (subscriptionMode).
//
// In a Cluster with classic messages, and behind a service that shares its keys out,
// subscribers cannot be counted. There are no queues: a release wakes everybody.
//
// # Incarnations
//
// A database has a name for its present life, which says since when it has had
// its data and which run of the server serves it. [lockagent.AcquireReply] tells
// it, and [Store.OnReset] that it changed: the data are gone ("emptied"), or they
// are still there but may lack what was written last, because the server was
// "restarted" or "failed over". In a Cluster there is no such name, because no key
// is in every slot. There the runs of the nodes are compared, so that a node that
// is emptied without being restarted goes unnoticed.
//
// The server is asked when a connection was lost or made, and when a renewal was
// denied; not at intervals.
//
// # Concurrency
//
// A [Store] is safe for concurrent use, and serves one agent. It calls done, wake, hear and
// the functions of OnReset from goroutines of its own, or done from that of the caller. One
// that does not return holds up no call of others, but may keep those from an answer that
// travelled with it. A panic in one of them is not recovered. One that ends its goroutine in
// done keeps nobody from an answer.
//
// # Testing
//
// The store needs a real server; package memstore stands in for it in tests of
// other things, on virtual time.
package redisstore

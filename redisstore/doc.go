// Package redisstore is a [lockagent.Store] on Redis. Agents on many hosts contend for the
// same locks through it, and so do programs that use Redisson.
//
// # Usage
//
//	store, err := redisstore.Open(ctx, "redis://localhost:6379")
//	if err != nil {
//		return err
//	}
//	defer store.Close()
//
// One URL has the address of Redis and the credentials:
//
//	redis://host:6379                                  one server
//	redis://user:password@host:6379/1                  with an ACL user, database 1
//	redis://:password@host:6379                        with a password only
//	rediss://host:6379                                 with TLS
//	unix:///run/redis.sock?db=1                        through a Unix socket
//	redis://host1:6379?addr=host2:6379&addr=host3:6379 a Cluster
//	redis://host1:26379?addr=host2:26379&master_set=m  Sentinels that watch m
//
// One node of a Cluster is enough. More addresses help when that node is down. Sentinels have
// a user and a password of their own: sentinel_user and sentinel_password. skip_verify=true
// accepts any certificate. Escape special characters in a password: %40 for @, %2F for /,
// %3A for a colon, %25 for %. [Config] has the other settings.
//
// The server is Redis 6.2 or newer, or another server with the same commands.
//
// # Guarantees
//
// The store passes package storetest, the contract of every store. Beyond that:
//
//   - Every call runs as a script: at once or not at all, and on the server's clock alone. A
//     lone call is one command. Calls that come while others are under way travel together:
//     all Acquires are one command, and all Releases are one, in a Cluster for each slot. One
//     command carries up to 100 renewals. An error of one call never touches the others.
//   - A call is answered within [Config.CallTimeout], and at once when the store is
//     closed. After ErrStoreUnavailable the caller can safely make the same call again.
//   - The store has connections for calls to each server, so no call waits for another
//     server. One of them is for calls that find no other under way: the caller makes the exchange there, and
//     the end of the caller's context ends it. Before use the store looks whether the connection is still there
//     (not on Windows), so no call fails because of an earlier loss.
//   - All subscriptions of a store share one connection. In a Cluster of Redis 7 or newer there is one more for
//     each node: the messages of a lock stay with its slot, as those of Redisson 3.22 and newer do. Before Redis 7
//     they go to all nodes. After a loss the store reconnects within about a second once the server is back. Then it
//     subscribes to all channels again, wakes all waiters, and tells the agent that messages were missed. It wakes
//     and tells them also if the server has lost its data. It wakes all waiters when it is closed.
//   - The store writes a lock as Redisson writes an RLock, and hears Redisson's messages.
//     Redisson's clients see the lock of a [lockagent.Tenure] as held: the client is
//     the agent's id, and the thread is the number.
//   - A break removes a lock of Redisson or of an agent whose id has a UUID, as those of
//     [lockagent.NewAgentID] have. Any other hash stays, for it may be a map of another program.
//   - [Open] runs every command that the store needs, and leaves no key of that. So a user without the right to one
//     of them learns of it there, and which one it is. A service that lets scripts touch no keys but those that they
//     declare is refused there, too: the scripts of the store touch others.
//
// # Failures
//
// Within the same call the store gets over
//
//   - a server that has forgotten a script;
//   - a slot of a Cluster that has moved;
//   - a master that was demoted, if its address leads to the new master by now.
//
// All other errors of a server reach the caller, with advice.
//
// A server that hangs keeps a call for at most [Config.SilenceTimeout] from when the call is
// sent. A call that its caller makes alone also ends with the context of the caller. The store
// then cuts the connection, and the next call makes another one. Calls that come
// meanwhile travel on the next connection. They take up to twice as long. If nothing answers at
// the address, a call takes as long as the attempt to connect: [Config.DialTimeout] or half of
// [Config.CallTimeout], whichever is less. In all, no call takes longer than CallTimeout.
//
// The store asks all Sentinels, or the nodes of the Cluster, which servers serve: every 2 s,
// and after every failure. Sentinels also announce a change. It does not believe a Sentinel
// that lags behind the others. When another server takes over, the store cuts the
// connections to the old one. Calls that wait for the old server go to the new one.
//
// # Replicas
//
// With [Config.MinReplicas] a tenure counts only if so many replicas of the master have it. The store sends a
// WAIT behind the scripts of each exchange that acquires or renews.
//
//   - A grant that too few replicas have acknowledged in time is given back, and the request is refused when
//     [Config.ReplicaTimeout] has passed, with a [*lockagent.ReplicasError]. So are all requests of the agent that
//     wait for that lock. A request that waits for less than that ends with a [*lockagent.WaitError] that says that the
//     store is silent.
//   - A renewal that too few replicas have acknowledged has failed. The agent makes it again. If no renewal
//     succeeds before the deadline, the hold is lost.
//   - An agent that is passed a lock asks the store before it grants the lock. That is one call more for each pass.
//
// So a failover to one of these replicas forgets no hold. A master that is cut off from its replicas grants nothing.
// While too few replicas answer, each such exchange takes [Config.ReplicaTimeout], and calls that come meanwhile wait
// for it.
//
// Have at least one replica more than MinReplicas. A replica that was promoted needs others that follow it: until then
// it grants nothing, and holders lose their locks when their leases end.
//
// WAIT does not make Redis a consistent store. A tenure is lost all the same if
//
//   - a replica is promoted that has not acknowledged it. Sentinels and Clusters prefer the replica that has received
//     most, among those of the best priority that they reach;
//   - the master and these replicas restart without their data: an acknowledged write is in memory, and need not be
//     on disk.
//
// Releases, breaks, latches, and the numbers of permits wait for no replica. A failover may bring a tenure back that
// was released. Its agent releases it again as soon as anybody meets it.
//
// # Not guaranteed
//
// Redis replicates asynchronously. If a master fails, its replica may lack a lock that the master had confirmed, and
// may grant it again. MinReplicas makes that less likely, see above. When the store hears from the new server, it tells
// the agent of the reset ([Store.OnReset]). The new grants have greater tokens all the same, so a resource that checks
// tokens is safe.
//
// A master can be cut off from its Sentinels or from the Cluster. Such a master goes on granting
// locks to the programs that still reach it, until it learns that another node has replaced it.
// For some seconds there are two masters. With min-replicas-to-write 1 and min-replicas-max-lag
// 2 the old master soon refuses, and with MinReplicas it confirms nothing. Otherwise no grace period of the new master
// prevents an overlap. [Open] warns if a master has replicas, or Sentinels watch it, without any of these settings, and
// if a master has fewer replicas than MinReplicas.
//
// A server that evicts keys when its memory is full may evict locks. Run it with
// maxmemory-policy noeviction. [Open] warns of other policies.
//
// The store misses wake-ups if its user may not subscribe to all channels. [Open] finds that out. If the
// rules of the user change later, the store logs a warning, and its waiters ask about every second. It also logs one
// if the user may no longer look whether the server has forgotten anything. If the user
// may not publish to a channel, nothing reports that, and others wait until they look again.
//
// Some services are several servers behind one address, and no Cluster. The store recognises them by their errors about
// keys in different slots. Locks have no queues there, and nobody who waits has a certain turn. The store cannot tell a
// reset of such a service.
//
// If a network delays an Acquire for more than a minute after its tenure was withdrawn, that
// Acquire still takes effect, for one lease.
//
// While a slot of a Cluster moves to another node, no call for its locks takes effect but a renewal or an
// Inspect. The others end with [lockagent.ErrStoreUnavailable] until the slot has moved, and the agent makes them
// again. A tenure is renewed meanwhile, except while the lock and the clock of its slot are at different nodes. It is
// lost if that takes longer than its lease. A slot that is left half moved has no locks.
//
// # Keys
//
// These keys and channels belong to a lock with the name N. They are in the hash slot of N.
//
//	key or channel              what                              expires after
//	N                           hash: <agent>:<number> = the      the lease
//	                            kind: 2 plain, 3 fair, 4 fenced,
//	                            5 spin. Of a read/write lock 1.
//	                            A 1 before the 2 of a plain lock
//	                            or the 4 of a fenced one: the
//	                            tenure may rest
//	lockagent_queue:{N}         zset: waiting tenures, by arrival 5 minutes
//	lockagent_notes:{N}         zset: withdrawn tenures (the      1 minute
//	                            tombstones), by time. "yield" and
//	                            "polls": the ends of the turns of
//	                            outsiders, and of those that poll.
//	                            "foreign": when another program was
//	                            last seen to have the lock.
//	                            "contended", "last": since when agents
//	                            contend, and when one got the lock
//	redisson_lock_token:{N}     string, of a fenced lock: the     never
//	                            greatest token of either side
//	lockagent_turn:{N}          number of passes since the        250 ms
//	                            outsiders' turn
//	redisson_lock_queue:{N}     list: who waits for a fair lock   never
//	redisson_lock_timeout:{N}   zset: the same, by when the       never
//	                            place is over, in ms
//	lockagent_places:{N}        zset: those of them that are of   5 minutes
//	                            agents, by their last attempt
//	lockagent_arrivals:{N}      zset: the same, by their arrival  5 minutes
//	lockagent_lasts:{N}         number: how long they last, if    5 minutes
//	                            Redisson removed one too early
//	lockagent_told:{N}          string: when the first waiter of  1 minute
//	                            Redisson's was told, in ms, its
//	                            score then, and the waiter
//	redisson_lock__channel:{N}  channel: "0" at every release that frees the lock. That of a
//	                            place at a fair lock ends with :<agent>:<number>
//	{N}:<agent>:<number>:rwlock_timeout:1
//	                            "1": a tenure shares the          the lease
//	                            read/write lock
//	lockagent_readers:{N}       zset: these tenures, by the end   the longest lease
//	                            of their leases, in ms
//	redisson_rwlock:{N}         channel of a read/write lock: "0" when the last reader has gone, "1"
//	                            when a writer has gone, or goes on reading
//	lockagent_agents:{N}        channel without messages: each agent that subscribes to the
//	                            channel above subscribes to this one, too. Outsiders do not
//	lockagent_agent:<agent>     channel: messages to an agent, and those of processes that find out
//	                            whether another one listens as that agent. In a Cluster, passes and
//	                            standbys come on lockagent_agent:<agent>:{N}
//
// If all waiters of a fair lock die, their places stay until somebody asks for the lock: some 100 bytes for
// each. Redisson leaves its own in the same way. A time after which Redis removes these keys would remove the places of
// waiters of Redisson that live. When nobody uses the lock, both keys can be deleted.
//
// To a latch with the name N belong
//
//	N                           string: the count               never
//	lockagent_notes:{N}         zset: the latest changes, and     1 minute
//	                            whether it was opened lately
//	redisson_countdownlatch__channel__{N}
//	                            channel: "0" when the latch is open, "1" when it is set or
//	                            deleted
//
// In a Cluster a latch cannot have a '{' in its name.
//
// To a semaphore with the name N belong
//
//	N                           string: the permits that are free as it was made
//	{N}:timeout                 zset: ids of the permits that are as N
//	                            taken, by the end of the lease.
//	                            Only of the kind Permits
//	lockagent_permits:{N}       zset: the tenures that have       100 days after the
//	                            permits, by the end of the lease  longest lease, and N
//	lockagent_tenures:{N}       the same, of the kind Permits     a day after those
//	lockagent_taken:{N}         hash: the permits of each tenure, as the zset
//	                            and their sum
//	lockagent_queue:{N}         zset: waiting tenures, by arrival 5 minutes
//	lockagent_wanted:{N}        hash: the permits that they want  5 minutes
//	lockagent_notes:{N}         as of a lock, and "sum": 2^52 +   1 minute
//	                            the permits that are free and
//	                            those of tenures
//	lockagent_turn:{N}          as of a lock                      250 ms
//	lockagent_change:{N}:<id>   the reply to a change             1 minute
//	redisson_sc:{N}             channel: the number of permits that are free, if it changed and is
//	                            above 0
//
// Changes are remembered for longer than a minute if [Config.CallTimeout] is more than 7.5 s: for 45 s and two
// such timeouts.
//
// While a slot of a Cluster moves to another node, a tenure of a semaphore is renewed, except from when the first of
// five keys moves until the last one has. The keys of a slot move in any order, so in a slot with many keys that is
// most of the move.
//
// A name with a '{' has a hash tag of its own, and is not wrapped. For the lock a{b}:
//
//	lockagent_queue::a{b}       our keys have two colons
//	redisson_lock__channel:a{b} Redisson's have one
//
// So Redisson's keys of the locks a and {a} are the same. A name such as {a}, which is only a tag, is an error for
// fair, fenced and read/write locks, and for semaphores.
//
// The ids of the permits of a are in {a}:timeout. If that is also the name of a lock, calls to the one that comes later
// end with an error, [lockagent.ErrWrongType] or a [*lockagent.KindError], and change nothing.
//
// These keys serve all locks. In a Cluster there are such keys for each slot, and their names
// end with the tag of the slot. Those after the first two are in the last slot of a node only, but for
// lockagent_claims:
//
//	lockagent_clock             zset: the incarnation; its score is the greatest time or token that the store
//	                            has given out. Never expires. Behind an address of several servers it has "-"
//	lockagent_ahead             how many microseconds that clock is ahead of the server's;
//	                            usually absent. Never expires
//	lockagent_since             string: the incarnation, and when a store first found it, by the server's
//	                            own clock: see [Store.RemembersSince]. Never expires. This and what follows are
//	                            not behind an address of several servers
//	lockagent_roll              zset: the agents that may have tenures. In a Cluster also the former homes of the
//	                            node, the slots that had these keys
//	lockagent_grace             zset: the agents for which a grace period waits. A minute longer than it lasts
//	lockagent_claims            zset: the greatest tokens with which locks are claimed in a grace period. Only as
//	                            long as that lasts. In a Cluster the name has the incarnation, and it lasts a day
//	lockagent_incarnation       channel: a message when another incarnation begins, when a grace period is over,
//	                            and when an agent may have tenures from now on, or has none any more. These two
//	                            say of which database or home
//
// One key serves a whole Cluster:
//
//	lockagent_store             string: the identity of the store, a random UUID, see
//	                            [Store.Identity]. Never expires
//
// No lock can have a name that begins with lockagent_ or redisson_.
//
// # Access rules
//
// A user for the locks whose names begin with orders/ needs
//
//	resetkeys resetchannels -@all
//	~orders/* ~{orders/*}:* ~lockagent_*:{orders/* ~redisson_lock_*:{orders/*
//	~lockagent_clock* ~lockagent_ahead* ~lockagent_since* ~lockagent_store ~lockagent_roll* ~lockagent_grace*
//	~lockagent_claims* ~lockagent_rehearsal*
//	&redisson_lock__channel* &redisson_rwlock* &redisson_countdownlatch* &redisson_sc* &lockagent_*
//	+eval +evalsha +time +ping +select
//	+getrange +set +incr +decr +incrby +del +exists +pexpire +pttl +persist
//	+hset +hdel +hmget +hincrby +hlen +hscan
//	+lrange +lindex +llen +lpos +linsert +rpush +lrem
//	+zadd +zcard +zscore +zmscore +zrange +zrangebyscore +zrem
//	+publish +subscribe +unsubscribe +pubsub|numsub
//
// and in a Cluster also
//
//	+cluster|slots +cluster|myid +asking
//
// and, since Redis 7,
//
//	+spublish +ssubscribe +sunsubscribe +pubsub|shardnumsub
//
// and with MinReplicas
//
//	+wait
//
// For names with a '{', such as orders/{7}, add ~lockagent_*::orders/* and ~redisson_lock_*:orders/*. A user for
// Sentinels needs +sentinel, +subscribe and +ping.
//
// INFO belongs to @dangerous, so a user of a managed service may lack it. Locks do not need it. With
//
//	+info
//
// the store can do more:
//
//   - [Store.OnReset] tells of a restart and of a failover that have left the data there. Without it, OnReset tells
//     only of data that are gone, and [Store.RemembersSince] is never before the latest connection.
//   - Open warns of dangerous settings, and Examine tells them.
//
// All agents of a database should have the same rules. Otherwise a look of one that has +info may be told as a restart.
//
// These rules keep users of other prefixes from the keys of a lock, but not from all harm:
//
//   - An agent believes a pass without proof. Whoever may publish to the channel lockagent_agent:<agent> can tell an
//     agent that it has been passed a lock, with any token. The agent then holds the lock, beside another holder,
//     until the store denies the first renewal. The tenures and times that such a message needs are in the messages
//     of others, and in the keys. With MinReplicas the agent asks the store first.
//   - All locks of a database, or of a slot, have one clock. Whoever may write lockagent_clock can end all grants,
//     with an error that says that no tokens are left.
//   - Channels are not told apart by the prefix. Whoever may publish there can wake waiters in vain.
//
// So give these rules only to programs that you trust with all locks of the database, and the others no channel and no
// key of ours: a user of Redis 6.2 may use all channels without resetchannels. Programs that do not trust each other
// need servers of their own.
//
// # Credentials that change
//
// The store uses the user and the password for each connection that it makes, and connections that stand go on when
// the password changes. Where passwords or tokens expire, set [Config].Credentials. It is asked at each connection. So
// a store whose password has become wrong heals as soon as Credentials knows the right one, and nobody who waits is
// refused meanwhile.
//
// Who can give a URL only has two ways. A user can have two passwords at a time: add the new one (ACL SETUSER app
// >new), start the programs anew, and take the old one away (ACL SETUSER app <old). Or open the store anew. When the
// old password is wrong and a connection is lost, all calls end with [lockagent.ErrNotPermitted], and waiters are
// refused.
//
// # Queues
//
// Each lock has a queue, as [lockagent.Store] describes it. A release looks at the first eight
// places. It passes the lock to the first tenure whose agent subscribes to its channel. If
// that agent hangs, the lock is free after [lockagent.PassLease]. A new place looks at the first
// two places and at the two before it, and removes those of agents that are gone.
//
// The store counts outsiders, such as programs that use Redisson:
//
//	outsiders = subscribers of redisson_lock__channel:{N} - subscribers of lockagent_agents:{N}
//
// In a Cluster it counts those at the lock's node. With Sentinels, an outsider that subscribes at a replica is not
// counted. So let Redisson subscribe at the master, which is its default (subscriptionMode).
//
// It cannot count those that poll a lock. So it gives turns where a program that is no agent was seen to have the lock
// within the last minute. An agent sees that, when it asks. Such a lock is left free for 150 ms, whenever
// agents have contended for half a second. Readers are asked to leave a read/write lock then, and nobody joins them. At
// a semaphore the store sees that such a program took or returned permits: their number has changed by itself. Fair
// locks give no such turns, because they have an order of their own.
//
// The store cannot count subscribers behind a service of several servers, nor in a Cluster before Redis 7. There are
// no queues then: a release wakes all waiters.
//
// # Incarnations
//
// A database has a name for its present incarnation. The name tells since when the database has had its data, the run
// of the server, and when the grace period began. [lockagent.AcquireReply] has the name. If the name changes,
// [Store.OnReset] says why: the data are gone ("emptied"), or the latest writes may be gone, because the server was
// "restarted" or "failed over".
//
// In a Cluster each node has such a name, in its last slot. It serves the locks of all slots of the node: scripts read
// the key of that slot, too. A node that is new to the agents of a Cluster begins with a grace period. So does a node
// that has given its last slot to another one: without that slot nothing shows whether the node was emptied.
//
// A database or a Cluster also has an identity, which it keeps over resets. The first store that
// opens writes it. If the data are gone, the next store that notices writes it again. Another store
// may be faster with a new one. Then all others take that one, and [Store.OnReset] tells the former.
//
// Every Acquire reads the name. The store also asks for it after it has lost or made a connection,
// after the server has denied a renewal, and after another agent has found a new incarnation. It
// does not ask at intervals.
//
// # Concurrency
//
// A [Store] is safe for concurrent use, and serves one agent. It calls done, wake, hear and
// the functions of OnReset from goroutines of its own. It may also call done from the
// goroutine of the caller.
//
// A done that does not return delays only the answers that came with the same reply. A done
// that calls runtime.Goexit delays no answer. The store does not recover a panic in any of
// these functions.
//
// # Testing
//
// The store needs a real server. Use package memstore in tests of other things: it runs on
// virtual time.
package redisstore

-- rehearse.lua runs, on a key of its own, every command that the other scripts
-- run, so that a user who may not run one of them hears of it at once, and not
-- when a lock is half released.
--
-- KEYS[1]  a key that nobody uses
-- ARGV[1]  how to wake those who wait: PUBLISH or SPUBLISH
-- ARGV[2]  the channel of the lock that is called like the key
-- ARGV[3]  the channel for what is passed on to the store; none without queues
--
-- Reply: 1, and the key is gone.

local key = KEYS[1]
redis.call('TIME')
redis.call('INFO', 'server')
redis.call('SET', key, 'rehearsal', 'PX', 1000)
redis.call('GET', key)
redis.call('MGET', key)
redis.call('EXISTS', key)
redis.call('UNLINK', key)
redis.call('HSET', key, 'rehearsal', 1)
redis.call('PEXPIRE', key, 1000)
redis.call('PTTL', key)
redis.call('EXPIRE', key, 1)
redis.call('HEXISTS', key, 'rehearsal')
redis.call('HGET', key, 'rehearsal')
redis.call('HMGET', key, 'rehearsal')
redis.call('HVALS', key)
redis.call('HKEYS', key)
redis.call('HLEN', key)
redis.call('HGETALL', key)
redis.call('HDEL', key, 'rehearsal')
redis.call('DEL', key)
redis.call(ARGV[1], ARGV[2], '0')
if ARGV[3] then
  redis.call('HSET', key, 'rehearsal', 1)
  redis.call('HGET', key, 'rehearsal')
  redis.call('DEL', key)
  redis.call('ZADD', key, 'NX', 1, 'rehearsal')
  redis.call('ZSCORE', key, 'rehearsal')
  redis.call('ZREM', key, 'rehearsal')
  redis.call('ZPOPMIN', key)
  redis.call('PUBSUB', 'NUMSUB', ARGV[2])
  redis.call('PUBLISH', ARGV[3], '')
end
return 1

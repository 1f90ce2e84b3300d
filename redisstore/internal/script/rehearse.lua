-- rehearse.lua runs every command of the other scripts, on a key of its own. So a user without the
-- right to a command learns of it at once, and not when a lock is half released.
--
-- KEYS[1]  a key that nobody uses. Other keys follow. The script does not touch them, but the server looks whether
--          the user may
-- ARGV[1]  the channel of a lock with the name of the key
-- ARGV[2]  the channel of the agent
-- ARGV[3]  how messages travel, see release.lua
--
-- Reply: "ok". The key is gone.

local call, key = redis.call, KEYS[1]
call('TIME')
call('INFO', 'server')
call('SET', key, '0', 'PX', 1000)
call('GETRANGE', key, 0, -1)
call('MGET', key)
call('INCR', key)
call('INCRBY', key, 1)
call('PERSIST', key)
call('DECR', key)
call('EXISTS', key)
call('PTTL', key)
call('PEXPIRE', key, 1000)
call('DEL', key)
call('HSET', key, 'rehearsal', 1)
call('HSCAN', key, 0)
call('HLEN', key)
call('HMGET', key, 'rehearsal')
call('HINCRBY', key, 'rehearsal', 1)
call('HDEL', key, 'rehearsal')
call('ZADD', key, 'XX', 'GT', 'CH', 1, 'rehearsal')
call('ZADD', key, 1, 'rehearsal')
call('ZCARD', key)
call('ZRANK', key, 'rehearsal')
call('ZSCORE', key, 'rehearsal')
call('ZMSCORE', key, 'rehearsal')
call('ZRANGE', key, 0, 0)
call('ZRANGEBYSCORE', key, 1, 1)
call('ZREM', key, 'rehearsal')
call('RPUSH', key, 'rehearsal')
call('LPOS', key, 'rehearsal')
call('LINSERT', key, 'BEFORE', 'nobody', 'rehearsal')
call('LLEN', key)
call('LINDEX', key, 0)
call('LRANGE', key, 0, 0)
call('LREM', key, 1, 'rehearsal')
call('PUBLISH', ARGV[1], '0')
call('PUBLISH', ARGV[2], '')
if ARGV[3] == 'single' then
  call('PUBSUB', 'NUMSUB', ARGV[1])
elseif ARGV[3] == 'sharded' then
  call('SPUBLISH', ARGV[1], '0')
  call('PUBSUB', 'SHARDNUMSUB', ARGV[1])
end
if ARGV[3] ~= 'single' then
  call('CLUSTER', 'MYID')
end
return 'ok'

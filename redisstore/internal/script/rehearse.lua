-- rehearse.lua runs every command of the other scripts, on a key of its own. So a user without the
-- right to a command learns of it at once, and not when a lock is half released.
--
-- KEYS[1]  a key that nobody uses. Other keys follow. The script does not touch them, but the server looks whether
--          the user may
-- ARGV[1]  the channel of a lock with the name of the key
-- ARGV[2]  the channel of the agent
-- ARGV[3]  how messages travel, see release.lua
-- ARGV[4]  another key at the same server, which the script does not declare
--
-- Reply: "ok", or the first error of a command, with the name of the command. The key is gone in any case: nothing is
-- written by a user who may not run DEL. "UNDECLARED <error>" is the error of a server that lets a script touch no
-- keys but those that it is told of.

local key, failed = KEYS[1], nil

local function try(command, ...)
  local reply = redis.pcall(command, ...)
  local err = type(reply) == 'table' and reply.err
  failed = failed or err and err .. ' (at ' .. command .. ')'
  return err
end

if try('DEL', key) then
  return redis.error_reply(failed)
end
try('TIME')
try('SET', key, '0', 'PX', 1000)
try('GETRANGE', key, 0, -1)
try('INCR', key)
try('INCRBY', key, 1)
try('PERSIST', key)
try('DECR', key)
try('EXISTS', key)
try('PTTL', key)
try('PEXPIRE', key, 1000)
redis.call('DEL', key)
try('HSET', key, 'rehearsal', 1)
try('HSCAN', key, 0)
try('HLEN', key)
try('HMGET', key, 'rehearsal')
try('HINCRBY', key, 'rehearsal', 1)
try('HDEL', key, 'rehearsal')
redis.call('DEL', key)
try('ZADD', key, 'XX', 'GT', 'CH', 1, 'rehearsal')
try('ZADD', key, 1, 'rehearsal')
try('ZCARD', key)
try('ZSCORE', key, 'rehearsal')
try('ZMSCORE', key, 'rehearsal')
try('ZRANGE', key, 0, 0)
try('ZRANGEBYSCORE', key, 1, 1)
try('ZREM', key, 'rehearsal')
redis.call('DEL', key)
try('RPUSH', key, 'rehearsal')
try('LPOS', key, 'rehearsal')
try('LINSERT', key, 'BEFORE', 'nobody', 'rehearsal')
try('LLEN', key)
try('LINDEX', key, 0)
try('LRANGE', key, 0, 0)
try('LREM', key, 1, 'rehearsal')
redis.call('DEL', key)
try('PUBLISH', ARGV[1], '0')
try('PUBLISH', ARGV[2], '')
if ARGV[3] == 'single' then
  try('PUBSUB', 'NUMSUB', ARGV[1])
elseif ARGV[3] == 'sharded' then
  try('SPUBLISH', ARGV[1], '0')
  try('PUBSUB', 'SHARDNUMSUB', ARGV[1])
end
if ARGV[3] ~= 'single' then
  try('CLUSTER', 'MYID')
end
if not failed and (try('EXISTS', key .. ':undeclared') or try('EXISTS', ARGV[4])) then
  failed = 'UNDECLARED ' .. failed
end
return failed and redis.error_reply(failed) or 'ok'

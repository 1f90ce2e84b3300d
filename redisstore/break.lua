-- break.lua frees a lock, whoever has it.
--
-- KEYS[1]  the lock: a hash
-- ARGV[1]  how to wake those who wait: PUBLISH or SPUBLISH
-- ARGV[2]  the channel of the lock
--
-- Reply: {held, time}, where held is 1 if the lock was held, or 0, and time is in
-- microseconds. It is an error if the key is no hash.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

if redis.call('HLEN', KEYS[1]) == 0 then
  return {0, now}
end
-- First what a user may not be permitted to do, so that it is all or nothing.
redis.call(ARGV[1], ARGV[2], '0')
redis.call('DEL', KEYS[1])
return {1, now}

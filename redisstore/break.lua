-- break.lua frees a lock, whoever has it.
--
-- KEYS[1]  the lock: a hash
-- ARGV[1]  how to wake those who wait: PUBLISH or SPUBLISH
-- ARGV[2]  the channel of the lock
--
-- Reply: 1 if the lock was held, or 0. It is an error if the key is no hash.

if redis.call('HLEN', KEYS[1]) == 0 then
  return 0
end
-- First what a user may not be permitted to do, so that it is all or nothing.
redis.call(ARGV[1], ARGV[2], '0')
redis.call('DEL', KEYS[1])
return 1

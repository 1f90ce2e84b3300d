-- wake.lua wakes all who wait for a lock.
--
-- ARGV[1]  PUBLISH or SPUBLISH
-- ARGV[2]  the lock's channel
--
-- Reply: how many were woken.

return redis.call(ARGV[1], ARGV[2], '0')

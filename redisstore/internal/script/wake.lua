-- wake.lua wakes all waiters of a lock.
--
-- ARGV[1]  PUBLISH or SPUBLISH
-- ARGV[2]  the lock's channel
--
-- Reply: the number of subscribers.

return redis.call(ARGV[1], ARGV[2], '0')

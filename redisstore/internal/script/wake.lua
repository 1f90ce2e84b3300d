-- wake.lua wakes all waiters of a lock in a Cluster that has sharded messages.
--
-- ARGV[1]  the lock's channel
--
-- Reply: the number of subscribers.

return redis.call('SPUBLISH', ARGV[1], '0')

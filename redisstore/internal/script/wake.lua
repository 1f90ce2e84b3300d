-- wake.lua wakes all waiters of a lock in a Cluster, both ways: see ways.lua.
--
-- ARGV[1]  the lock's channel
--
-- Reply: the number of subscribers.

redis.pcall('PUBLISH', ARGV[1], '0')
return redis.call('SPUBLISH', ARGV[1], '0')

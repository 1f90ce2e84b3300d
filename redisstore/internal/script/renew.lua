-- renew.lua starts the leases of n tenures anew. It never shortens a lease.
--
-- KEYS[i]    lock i: a hash with one field, the tenure that has the lock
-- KEYS[n+1]  the clock, see acquire.lua
-- ARGV       for each lock
--   the tenure, "<agent>:<number>"
--   the lease in ms
--   how messages travel, see release.lua, if the holder watches who waits, or "". "fair" if it is a fair lock. If
--   nobody watches, this argument is left out for all locks
--
-- Reply: lines of text. The first line is <at>. A tenure without another line has the lock. The other
-- lines begin with the i of a lock:
--   i w         the tenure has the lock, and somebody else waits for it
--   i n         the tenure is over
--   i f         the database may have forgotten the tenure, see reassert.lua
--   i e <text>  an error
-- A replica gives an error reply.

local call, pcall = redis.call, redis.pcall

--include exclusive_renew.lua

return exclusive_renew(KEYS, ARGV)

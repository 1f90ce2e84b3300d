-- fenced_break.lua is break.lua for fenced locks, see fence.lua. The token key stays as it is: nobody can
-- tell whether Redisson or a tenure of ours had the lock.
--
-- KEYS and ARGV are those of break.lua. ARGV[6] is the token key.

--include fence.lua

local err = other_kind(all[1], given[6])
if err then
  return redis.error_reply(err)
end
--include break.lua

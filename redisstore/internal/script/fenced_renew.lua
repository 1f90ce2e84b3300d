-- fenced_renew.lua is renew.lua for fenced locks, see fence.lua.
--
-- KEYS and ARGV are those of renew.lua, and KEYS[n+1+i] is the token key of lock i.

local call, pcall = redis.call, redis.pcall

--include fence.lua

--include exclusive_renew.lua

return exclusive_renew(KEYS, ARGV, fence_extend)

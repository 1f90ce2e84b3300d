-- fenced_release.lua is release.lua for fenced locks, see fence.lua.
--
-- KEYS and ARGV are those of release.lua, with the following differences:
--   KEYS[2n+1+i]  the token key of lock i
--   ARGV[2]       is 0
--   the last n of ARGV are the last tokens of the tenures, or 0

local call, pcall, keys, args = redis.call, redis.pcall, KEYS, ARGV
local seen = call('TIME')
--include fenced_free.lua

local n = (#keys - 1) / 3
local per = #args == 2 + 3 * n and 2 or 3
local kind, held_as, quiet = 'fenced ', '4', false -- see kinds.lua

--include fence.lua
local fenced = {raise = fence_raise, lower = fence_lower}

--include exclusive_release.lua

-- fenced_acquire.lua is acquire.lua for fenced locks, see fence.lua.
--
-- KEYS and ARGV are those of acquire.lua, with the following differences:
--   KEYS[2n+1+i]  the token key of lock i
--   ARGV[1]       has no floor
--   the last n of ARGV are the floors of the locks
--
-- The reply is that of acquire.lua. The error of a lock may begin with "FAR" or "TOKENS", too.

--include request.lua

--include fenced_quick.lua

n = (#keys - 1) / 3 -- there are token keys and floors, too
per = #args == 2 + 3 * n and 2 or 3
local kind, held_as, raised, rest = 'fenced ', '4', false, nil -- see kinds.lua

--include fence.lua
local raise = fence_raise

--include exclusive.lua

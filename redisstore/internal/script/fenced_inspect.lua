-- fenced_inspect.lua is inspect.lua for fenced locks, see fence.lua.
--
-- KEYS and ARGV are those of inspect.lua. ARGV[2] is the token key.

--include fence.lua

local err = other_kind(all[1], given[2])
if err then
  return redis.error_reply(err)
end
--include inspect.lua

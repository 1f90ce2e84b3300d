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

--include still.lua

--include advance.lua

--include fence.lua

--include exclusive.lua

--include answer.lua

n = (#keys - 1) / 3 -- there are token keys and floors, too
per = #args == 2 + 3 * n and 2 or 3
local moving = keys[2 * n + 1] ~= 'lockagent_clock' and moves(keys[1], keys[2 * n + 1])
if moving then
  return moving
end
local time, reply = clock_advance(keys[2 * n + 1], args[1], args[2], seen)
if not time then
  return reply
end
local first = clock_shows(time)
return answer(reply, n, nil, function(i)
  local a = per * (i - 1) + 2
  local asks = per == 3 and args[a + 3] or ''
  local lock = tenure_lock(keys[i], string.sub(keys[n + i], 16), string.match(asks, '^%a+'), 'fenced ', '4')
  lock.fence = {key = keys[2 * n + 1 + i], floor = args[#args - n + i] + 0, raise = fence_raise}
  return exclusive_try(lock, time, first, args[a + 1], args[a + 2], asks)
end)

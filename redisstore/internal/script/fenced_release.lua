-- fenced_release.lua is release.lua for fenced locks, see fence.lua.
--
-- KEYS and ARGV are those of release.lua, with the following differences:
--   KEYS[2n+1+i]  the token key of lock i
--   ARGV[2]       is 0
--   the last n of ARGV are the last tokens of the tenures, or 0

local call, pcall, keys, args = redis.call, redis.pcall, KEYS, ARGV
local seen = call('TIME')
--include fenced_free.lua

--include still.lua

--include fence.lua

--include exclusive_release.lua

--include answer.lua

local n = (#keys - 1) / 3
local per = #args == 2 + 3 * n and 2 or 3
local moving = args[1] ~= 'single' and moves(keys[1], keys[2 * n + 1])
if moving then
  return moving
end

-- First everything is undone that the tenures have.
local removed, leases = {}, {}
for i = 1, n do
  local a = per * (i - 1) + 2
  leases[i] = call('PTTL', keys[i])
  removed[i] = pcall('HDEL', keys[i], args[a + 1])
  if type(removed[i]) == 'table' and string.find(removed[i].err, 'READONLY', 1, true) then
    return removed[i] -- a replica: nothing was done, and another server can do it
  end
  pcall('ZREM', keys[n + i], args[a + 1])
end
local time = clock_read('lockagent_clock' .. string.sub(keys[2 * n + 1], 16), seen)
return answer(clock_shows(time), n, nil, function(i)
  local a = per * (i - 1) + 2
  local lock = tenure_lock(keys[i], string.sub(keys[n + i], 16), args[1], 'fenced ', '4')
  lock.fence = {key = keys[2 * n + 1 + i], floor = 0, raise = fence_raise, lower = fence_lower}
  fence_lower(lock.fence.key, args[#args - n + i] + 0, removed[i] == 1 and leases[i] or nil, time)
  return exclusive_end(lock, time, args[a + 1], per == 3 and args[a + 3] or '', removed[i])
end)

-- spin_release.lua is release.lua for spin locks: it wakes nobody, as Redisson's. A spin lock has no queue.
--
-- KEYS, ARGV and the reply are those of release.lua.

local call, pcall, keys, args = redis.call, redis.pcall, KEYS, ARGV
local seen = call('TIME')
local n = (#keys - 1) / 2
local per = #args == 2 + 2 * n and 2 or 3
local rest, removed
if per == 3 and args[1] ~= 'single' then
--include still.lua
  local moving = moves(keys[1], keys[2 * n + 1]) -- there may be notes to make
  if moving then
    return moving
  end
end
for i = 1, n do
  local a = per * (i - 1) + 2
  local undone = pcall('HDEL', keys[i], args[a + 1])
  if undone ~= 1 or per == 3 and args[a + 3] ~= '' then
    if type(undone) == 'table' and string.find(undone.err, 'READONLY', 1, true) then
      return undone -- a replica: nothing was done, and another server can do it
    end
    rest, removed = rest or {}, removed or {}
    rest[#rest + 1], removed[i] = i, undone
  end
end
if not rest and args[2] == '0' and call('EXISTS', keys[2 * n + 1]) == 0 then
  return seen[1] * 1000000 + seen[2]
end

--include clock.lua

--include holders.lua

--include notes.lua

--include answer.lua

local time = clock_read('lockagent_clock' .. string.sub(keys[2 * n + 1], 16), seen)
clock_raise(time, args[2] + 0)
if not rest then
  return time.now
end
return answer(clock_shows(time), n, rest, function(i)
  local a = per * (i - 1) + 2
  if per == 3 and string.find(args[a + 3], 'u', 1, true) then
    note(string.sub(keys[n + i], 16), time.now, args[a + 1], time.now)
  end
  return removed[i] ~= 1 and not_held(time, keys[i], args[a + 1], removed[i], per == 3 and args[a + 3] or '') or nil
end)

-- fair_release.lua ends a tenure of each of n fair locks, or takes the place of a tenure away that waits, for
-- one agent. Its keys, arguments and reply are those of release.lua, with these differences:
--
--   * KEYS[n+i] has the places of lock i that are of our agents. See fair.lua for the others.
--   * A lock that is free is for the first place, also if the tenure only had a place.

local call, pcall, keys, args = redis.call, redis.pcall, KEYS, ARGV
local time = call('TIME')
local clock = time[1] * 1000000 + time[2]
local n = (#keys - 1) / 2
local message_kind, room, held_as = 'fair ', args[1], '3' -- see kinds.lua

-- Usually nobody waits.
local function queue(i)
  return 'redisson_lock_queue' .. string.gsub(string.sub(keys[n + i], 17), '^::', ':')
end
local quiet, ahead = false, '0'
if n == 1 then
  local name = queue(1)
  quiet = call('EXISTS', keys[3], name) == 0
else
  local names = {keys[2 * n + 1]}
  for i = 1, n do
    names[i + 1] = queue(i)
  end
  quiet = call('EXISTS', unpack(names)) == 0
end
if not quiet then
--include still.lua
  local moving = args[1] ~= 'single' and moves(keys[1], keys[2 * n + 1])
  if moving then
    return moving
  end
  local text = pcall('GETRANGE', keys[2 * n + 1], '0', '-1')
  if type(text) == 'string' and string.find(text, '^%d+$') and clock + text <= 9007199254740991 then
    ahead, clock = text, clock + text
  end
end

--include begin.lua

--include fair.lua

-- First everything is undone that the tenures have.
local per = #args == 2 + 2 * n and 2 or 3
local rest, removed, left, woken
for i = 1, n do
  local a = per * (i - 1) + 2
  local undone, others = pcall('HDEL', keys[i], args[a + 1]), nil
  local gone = not quiet and leave(fair_lock(keys[i], string.sub(keys[n + i], 17)), args[a + 1])
  if quiet and undone == 1 then
    others = pcall(publish, args[a + 2], '0')
  end
  if undone ~= 1 or not quiet or others ~= 0 and room ~= 'unqueued' or per == 3 and string.find(args[a + 3], 'u', 1, true) then
    if type(undone) == 'table' and string.find(undone.err, 'READONLY', 1, true) then
      return undone -- a replica: nothing was done, and another server can do it
    end
    if not rest then
      rest, removed, left, woken = {}, {}, {}, {}
    end
    rest[#rest + 1], removed[i], left[i], woken[i] = i, undone, gone, others
  end
end
--include last.lua
if not rest then
  return clock
end

--include holders.lua

--include notes.lua

-- Hands on a lock that is free, or wakes those that have no place yet.
local function free(i, lock, channel, flags, others, suffix)
  local fair = fair_lock(lock, suffix)
  local what
  if not others then
    what = hand_on(fair, function(place) return begin(keys[2 * n + 1], ahead, lock, place) end, string.match(flags, 't(.+)') or '-')
  end
  if what == 'passed' then
    return 'p'
  elseif what then
    return nil
  end
  local subscribed = string.find(flags, 's', 1, true) and 1 or 0
  others = others or pcall(publish, channel, '0')
  local known = type(others) == 'number' -- the user may publish there
  if room == 'unqueued' or known and others <= subscribed then
    return nil
  end
  return 'r ' .. (known and others - subscribed or -1)
end

local own = #'lockagent_places'
local function freed(i, a, flags, suffix)
  return free(i, keys[i], args[a + 2], flags, woken[i], suffix)
end
for _, i in ipairs(rest) do
  if left[i] and removed[i] ~= 1 and call('EXISTS', keys[i]) == 0 then
    freed(i, per * (i - 1) + 2, per == 3 and args[per * i + 2] or '', string.sub(keys[n + i], own + 1))
  end
end

--include released.lua

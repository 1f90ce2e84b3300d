-- fair_release.lua ends a tenure of each of n fair locks, or takes the place of a tenure away that waits, for
-- one agent. Its keys, arguments and reply are those of release.lua, with these differences:
--
--   * KEYS[n+i] has the places of lock i that are of our agents. See fair.lua for the others.
--   * A lock that is free is for the first place, also if the tenure only had a place.

local call, pcall, keys, args = redis.call, redis.pcall, KEYS, ARGV
local seen = call('TIME')
local n = (#keys - 1) / 2
local per = #args == 2 + 2 * n and 2 or 3
local room = args[1]

-- Usually nobody waits.
local function list_of(i)
  return 'redisson_lock_queue' .. string.gsub(string.sub(keys[n + i], 17), '^::', ':')
end
local quiet
if n == 1 then
  local name = list_of(1)
  quiet = call('EXISTS', keys[3], name) == 0
else
  local names = {keys[2 * n + 1]}
  for i = 1, n do
    names[i + 1] = list_of(i)
  end
  quiet = call('EXISTS', unpack(names)) == 0
end
if not quiet then
--include still.lua
  local moving = room ~= 'single' and moves(keys[1], keys[2 * n + 1])
  if moving then
    return moving
  end
end

-- First everything is undone that the tenures have.
local rest, removed, woken
for i = 1, n do
  local a = per * (i - 1) + 2
  local undone, others = pcall('HDEL', keys[i], args[a + 1]), nil
  if quiet and undone == 1 then
    others = pcall(room == 'sharded' and 'SPUBLISH' or 'PUBLISH', args[a + 2], '0')
  end
  local unanswered = per == 3 and string.find(args[a + 3], 'u', 1, true)
  if undone ~= 1 or not quiet or others ~= 0 and room ~= 'unqueued' or unanswered then
    if type(undone) == 'table' and string.find(undone.err, 'READONLY', 1, true) then
      return undone -- a replica: nothing was done, and another server can do it
    end
    if not rest then
      rest, removed, woken = {}, {}, {}
    end
    rest[#rest + 1], removed[i], woken[i] = i, undone, others
  end
end
if not rest and args[2] == '0' then
  return seen[1] * 1000000 + seen[2]
end

--include fair.lua

local time = clock_read('lockagent_clock' .. string.sub(keys[2 * n + 1], 16), seen)
clock_raise(time, args[2] + 0)
if not rest then
  return time.now
end

--include hand_on.lua

--include answer.lua

local locks, left = {}, {}
for _, i in ipairs(rest) do
  locks[i] = fair_lock(keys[i], string.sub(keys[n + i], 17), room)
  left[i] = not quiet and fair_leave(locks[i], args[per * (i - 1) + 3])
end

-- Hands on a lock that is free, or wakes those that have no place yet. Returns what there is to say about it.
--   flags, others  see queue_hand_on
local function free(lock, channel, flags, others)
  local what = not others and fair_hand_on(lock, time, string.match(flags, 't(.+)') or '-')
  if what then
    return what == 'passed' and 'p' or nil
  end
  return woke(room, flags, others or ways_publish(room, channel, '0'))
end

return answer(clock_shows(time), n, rest, function(i)
  local a, lock = per * (i - 1) + 2, locks[i]
  local who, channel, flags = args[a + 1], args[a + 2], per == 3 and args[a + 3] or ''
  if string.find(flags, 'u', 1, true) then
    note(lock.suffix, time.now, who, time.now)
  end
  if removed[i] == 1 then
    return free(lock, channel, flags, woken[i])
  elseif left[i] and call('EXISTS', lock.name) == 0 then
    free(lock, channel, flags)
  end
  return not_held(time, lock.name, who, removed[i], flags)
end)

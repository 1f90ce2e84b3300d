-- exclusive_release.lua is the main part of the scripts that release plain and fenced locks. The scripts have set:
-- call, pcall, keys and args; seen, what TIME has replied; n and per, see request.lua; kind and held_as, see
-- tenure.lua; fenced, the functions fence_raise and fence_lower as raise and lower if the locks are fenced; and quiet,
-- which says that nobody waits, and that the clock is not ahead.

if not quiet then
--include still.lua
  local moving = args[1] ~= 'single' and moves(keys[1], keys[2 * n + 1])
  if moving then
    return moving
  end
end

-- First everything is undone that the tenures have.
local room, rest, removed, woken, leases = args[1], nil, nil, nil, nil
for i = 1, n do
  local a, left = per * (i - 1) + 2, fenced and call('PTTL', keys[i])
  local undone, others = pcall('HDEL', keys[i], args[a + 1]), nil
  if not quiet then
    pcall('ZREM', keys[n + i], args[a + 1])
  elseif undone == 1 then
    others = pcall(room == 'sharded' and 'SPUBLISH' or 'PUBLISH', args[a + 2], '0')
  end
  local unanswered = per == 3 and string.find(args[a + 3], 'u', 1, true)
  if undone ~= 1 or not quiet or others ~= 0 and room ~= 'unqueued' or unanswered then
    if type(undone) == 'table' and string.find(undone.err, 'READONLY', 1, true) then
      return undone -- a replica: nothing was done, and another server can do it
    end
    if not rest then
      rest, removed, woken, leases = {}, {}, {}, {}
    end
    rest[#rest + 1], removed[i], woken[i], leases[i] = i, undone, others, left
  end
end
if not rest and args[2] == '0' then
  return seen[1] * 1000000 + seen[2]
end

--include tenure.lua

local time = clock_read('lockagent_clock' .. string.sub(keys[2 * n + 1], 16), seen)
clock_raise(time, args[2] + 0)
if not rest then
  return time.now
end

--include hand_on.lua

--include answer.lua

local hooks = {
  take = function(lock, now, who)
    if call('EXISTS', lock.name) == 0 then -- another program may have put something there
      return (tenure_begin(lock, now, who, held_as, pass_lease, -2, true))
    end
  end,
  back = function(lock, who)
    local left = fenced and call('PTTL', lock.name)
    call('HDEL', lock.name, who)
    if fenced then
      fenced.lower(lock.fence.key, 0, left, time)
    end
  end,
}

return answer(clock_shows(time), n, rest, function(i)
  local a, suffix = per * (i - 1) + 2, string.sub(keys[n + i], 16)
  local who, flags = args[a + 1], per == 3 and args[a + 3] or ''
  local lock = {
    name = keys[i], kind = kind, suffix = suffix, room = room, held_as = held_as, queue = keys[n + i],
    channel = args[a + 2], fence = fenced and {raise = fenced.raise, key = keys[#keys - n + i], floor = 0},
  }
  if string.find(flags, 'u', 1, true) then
    note(suffix, time.now, who, time.now)
  end
  if fenced then
    fenced.lower(lock.fence.key, args[#args - n + i] + 0, removed[i] == 1 and leases[i] or nil, time)
  end
  if removed[i] == 1 then
    return queue_hand_on(lock, time, hooks, '0', flags, woken[i])
  end
  return not_held(lock.name, who, removed[i])
end)

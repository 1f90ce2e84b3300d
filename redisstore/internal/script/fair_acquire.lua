-- fair_acquire.lua tries once to begin a tenure of each of n fair locks, for one agent. Its keys, arguments
-- and reply are those of acquire.lua, with these differences:
--
--   * A last argument says how messages travel, see release.lua. A tenure asks for a place also if its agent is "unqueued".
--   * A tenure has its place for as long as it asks. In place of "i q", a line says
--       i k <within> <ms> <outsiders> <holder>   the tenure has a place, and has to ask again within so many ms
--     <outsiders> is above 0 if programs that do not pass a lock on may be ahead: such a program tells the
--     next place by a message to the place's own channel.
--   * No tenure may rest.
--   * A free lock is for the first place. An attempt that comes upon such a lock passes it on, see fair.lua.

local room, held_as = table.remove(ARGV), '3' -- see kinds.lua

--include request.lua

-- Usually nobody has the lock or waits, there is no note, and the clock has moved on.
local function queue(i)
  return 'redisson_lock_queue' .. string.gsub(string.sub(keys[n + i], 16), '^::', ':')
end
local quiet
if n == 1 then
  local name = queue(1)
  quiet = call('EXISTS', keys[1], keys[2], name) == 0
else
  local names = {unpack(keys, 1, 2 * n)}
  for i = 1, n do
    names[2 * n + i] = queue(i)
  end
  quiet = call('EXISTS', unpack(names)) == 0
end
--include quick.lua
--include still.lua
local moving = not quiet and args[2] == '-' and moves(keys[1], keys[2 * n + 1])
if moving then
  return moving
end

--include tokens.lua

--include holders.lua

local message_kind = 'fair '
local pass_lease = '2000' -- in ms

--include grants.lua

--include fair.lua

-- Removes the places of agents that are gone from the end of the queue: a program that crashes again and
-- again leaves them there. And it forgets places that were removed by others.
--
-- It returns until when a new place is good. Redisson takes the time of a place of its own off all others
-- when that place is granted the lock. So those that come after it have that much more.
local function clear_end(fair, lasts)
  local ends = pcall('LRANGE', fair.queue, -2, -1)
  if not ends[1] then
    return wall + lasts
  end
  local ours = pcall('ZMSCORE', fair.places, unpack(ends))
  local deadline = tonumber(pcall('ZSCORE', fair.deadlines, ends[#ends]) or nil)
  if ours[#ends] then
    deadline = math.max(wall + lasts, deadline or 0)
  else
    deadline = math.max(wall, deadline or wall + theirs_lasts) + lasts
  end
  if room ~= 'unqueued' then
    local names = {}
    for p, place in ipairs(ends) do
      names[2 * p - 1] = channel_of(string.match(place, '^(.*):'), fair.suffix)
      names[2 * p] = fair.channel .. ':' .. place -- an agent without queues hears only this
    end
    local counts = listeners(names)
    for p, place in ipairs(ends) do
      if ours[p] and counts[4 * p - 2] == 0 and counts[4 * p] == 0 then
        leave(fair, place)
      end
    end
  end
  local old = pcall('ZRANGEBYSCORE', fair.places, '-inf', string.format('%.0f', wall - stale), 'LIMIT', 0, 2)
  if old[1] then
    call('ZREM', fair.places, unpack(old))
    pcall('ZREM', fair.arrivals, unpack(old))
  end
  return deadline
end

-- Finds the rank of a tenure whose place another program has removed. It was the first place then. So it comes before all
-- places of other programs, and before those of ours that came later. The function returns how many
-- places are before it, the next one, and the one before.
local function rank(fair, tenure)
  local arrived = tonumber(pcall('ZSCORE', fair.arrivals, tenure) or nil) or clock
  local front, p = pcall('LRANGE', fair.queue, 0, looked_at - 1), 0
  local arrivals = front[1] and pcall('ZMSCORE', fair.arrivals, unpack(front)) or {}
  while arrivals[p + 1] and arrivals[p + 1] + 0 < arrived do
    p = p + 1
  end
  return p, front[p + 1], front[p]
end

-- Gives a tenure a place, or keeps the place that it has. Returns within how many ms the tenure has to ask
-- again. It returns nil if the tenure has no place, because the keys are spoilt or the server is full.
local arrival = 0
local function place(fair, tenure)
  local p, next, before = pcall('LPOS', fair.queue, tenure), nil, nil
  if type(p) == 'table' then
    return nil
  end
  local asked, new = tonumber(pcall('ZSCORE', fair.places, tenure) or nil), not p
  local known = tonumber(pcall('ZSCORE', fair.deadlines, tenure) or nil)
  local lasts = pcall('GETRANGE', fair.lasts, '0', '-1')
  lasts = math.min(string.match(type(lasts) == 'string' and lasts or '', '^%d%d%d%d+$') or near_lasts, theirs_lasts)
  if p then
    pcall('PEXPIRE', fair.places, theirs_lasts) -- Redis lets a script that has written something write on, also if the server is full
  end
  if new and asked then
    p, next, before = rank(fair, tenure)
    if not known and asked + lasts > wall then -- the clock of the program that removed it may be ahead
      lasts = math.min(10 * lasts, theirs_lasts)
      pcall('SET', fair.lasts, lasts, 'PX', theirs_lasts)
    end
  end
  p = p or call('LLEN', fair.queue)
  local near = p < near_places
  lasts = near and lasts or math.max(lasts, far_lasts)
  local deadline = wall + lasts
  if new and not asked then
    deadline = clear_end(fair, lasts)
  elseif p > 0 then
    -- The attempt makes up for the time that has passed since the last one.
    deadline = math.max(deadline, (known or 0) + math.max(0, wall - (asked or wall)))
  end
  local added = pcall('ZADD', fair.deadlines, string.format('%.0f', deadline), tenure)
  if new and type(added) == 'number' then
    if next or before then
      added = pcall('LINSERT', fair.queue, next and 'BEFORE' or 'AFTER', next or before, tenure)
    else
      added = pcall('RPUSH', fair.queue, tenure)
    end
  end
  if type(added) == 'table' then
    return string.find(added.err, 'READONLY', 1, true) and call('RPUSH', fair.queue, tenure) or nil
  end
  pcall('ZADD', fair.places, string.format('%.0f', wall), tenure)
  pcall('PEXPIRE', fair.places, theirs_lasts)
  arrival = math.max(clock, arrival + 1)
  pcall('ZADD', fair.arrivals, 'NX', string.format('%.0f', arrival), tenure)
  pcall('PEXPIRE', fair.arrivals, theirs_lasts)
  return near and near_asks or far_asks
end

-- Counts the programs that may be ahead of a place and do not pass a lock on.
local function others(fair, holder, ours)
  if room == 'unqueued' then
    return 1
  end
  local queued, known = call('LLEN', fair.queue), pcall('ZCARD', fair.places)
  local ahead = math.max(0, queued - (type(known) == 'number' and known or 0))
  return holder and not ours and math.max(1, ahead) or ahead
end

-- Tries one lock, and returns what there is to say about it.
local function try(i)
  local a, lock = per * (i - 1) + 2, keys[i]
  local tenure, lease, asks = args[a + 1], args[a + 2], per == 3 and args[a + 3] or ''
  local suffix = string.sub(keys[n + i], 16)
  if type(pcall('ZSCORE', keys[n + i], tenure)) == 'string' then
    return 'w'
  end
  local left, err, holder, count, own = call('PTTL', lock), nil, nil, nil, false
  if left ~= -2 then
    local shared
    err, holder, count, own, shared = holders(lock, tenure)
    if err or shared then
      return 'e ' .. (err or 'KIND readwrite')
    end
    local another = holder and not own and other_kind(holder, count, held_as)
    if another then
      return 'e KIND ' .. another
    end
  end
  local fair = fair_lock(lock, suffix)
  local what, more = own and 'own', nil
  if holder then
    what = what or 'held'
  else
    local begin = function(next)
      local who, by = string.match(reply, '^%d+ (%S+) (%S+)')
      grant(lock, next, pass_lease, -2, false)
      return token .. ' ' .. token .. ' ' .. who .. '/' .. by, args[2] == '-' and '-' or who
    end
    what, more = hand_on(fair, begin, '-', tenure)
    if what == 'passed' then
      holder, left = more, pass_lease
    elseif what == 'told' then
      left = more
    end
  end
  if not what or what == 'own' then
    grant(lock, tenure, lease, own and left or -2, own)
    if own then
      leave(fair, tenure)
    elseif what then
      drop(fair, tenure)
    end
    return token ~= first and 'g ' .. token .. ' 0'
  end
  local ours = asks ~= '' and want(lock, tenure, holder)
  local within = asks ~= '' and place(fair, tenure)
  if within then
    return 'k ' .. within .. ' ' .. left .. ' ' .. others(fair, holder, ours) .. ' ' .. (holder or '')
  end
  return 'h ' .. left .. ' 0 ' .. (holder or '')
end

--include answer.lua

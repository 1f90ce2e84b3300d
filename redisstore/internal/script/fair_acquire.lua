-- fair_acquire.lua tries once to begin a tenure of each of n fair locks, for one agent. Its keys, arguments
-- and reply are those of acquire.lua, with these differences:
--
--   * A last argument says how messages travel, see release.lua. A tenure asks for a place also if its agent is
--     "unqueued". In place of how messages travel, its argument is when the tenure was first told that it has a place,
--     or 0. If the place was lost, the tenure gets one by that time. In a grace period, when the reply is an error,
--     only tenures with such a time get their places.
--   * A tenure has its place for as long as it asks. In place of "i q", a line says
--       i k <within> <ms> <outsiders> <holder>   the tenure has a place, and has to ask again within so many ms
--     <outsiders> is above 0 if programs that do not pass a lock on may be ahead: such a program tells the
--     next place by a message to the place's own channel.
--   * No tenure may rest.
--   * A free lock is for the first place. An attempt that comes upon such a lock passes it on, see fair.lua.

local room = table.remove(ARGV)

--include request.lua

local held_as = '3' -- see kinds.lua

-- Usually nobody has the lock or waits, there is no note, and the clock has moved on.
local function list_of(i)
  return 'redisson_lock_queue' .. string.gsub(string.sub(keys[n + i], 16), '^::', ':')
end
local quiet
if n == 1 then
  local name = list_of(1)
  quiet = call('EXISTS', keys[1], keys[2], name) == 0
else
  local names = {unpack(keys, 1, 2 * n)}
  for i = 1, n do
    names[2 * n + i] = list_of(i)
  end
  quiet = call('EXISTS', unpack(names)) == 0
end
--include quick.lua

--include still.lua
local moving = not quiet and keys[2 * n + 1] ~= 'lockagent_clock' and moves(keys[1], keys[2 * n + 1])
if moving then
  return moving
end

--include advance.lua
local time, reply = clock_advance(keys[2 * n + 1], args[1], args[2], seen, raised and at)
local refused = not time and reply
if refused and not string.find(refused.err, '^GRACE') then
  return refused
end
time = time or clock_read(keys[2 * n + 1], seen)

--include fair.lua

--include answer.lua

local stale = 30000 -- without an attempt, in ms

-- Removes the places of agents that are gone from the end of the queue: a program that crashes again and
-- again leaves them there. And it forgets places that were removed by others. In a grace period none is gone: the
-- agents come back one after the other.
--
-- Returns until when the last place was good, and whether it was that of another program.
local function clear_end(lock, time)
  local ends, wall = pcall('LRANGE', lock.queue, -2, -1), fair_wall(time)
  if not ends[1] then
    return wall, false
  end
  local ours = pcall('ZMSCORE', lock.places, unpack(ends))
  local last = tonumber(pcall('ZSCORE', lock.deadlines, ends[#ends]) or nil)
  if lock.room ~= 'unqueued' and not refused then
    local names = {}
    for p, place in ipairs(ends) do
      names[2 * p - 1] = ways_channel_of(lock.room, string.match(place, '^(.*):'), lock.suffix)
      names[2 * p] = lock.channel .. ':' .. place -- an agent without queues hears only this
    end
    local counts = ways_listeners(lock.room, names)
    for p, place in ipairs(ends) do
      if ours[p] and counts[4 * p - 2] == 0 and counts[4 * p] == 0 then
        fair_leave(lock, place)
      end
    end
  end
  local old = pcall('ZRANGEBYSCORE', lock.places, '-inf', string.format('%.0f', wall - stale), 'LIMIT', 0, 2)
  if old[1] then
    call('ZREM', lock.places, unpack(old))
    pcall('ZREM', lock.arrivals, unpack(old))
  end
  if ours[#ends] then
    return last or wall, false
  end
  return math.max(wall, last or wall + theirs_lasts), true
end

-- Finds the rank of a tenure whose place another program has removed. It was the first place then. So it comes before
-- all places of other programs, and before those of ours that came later. The function returns how many places are
-- before it, the next one, and the one before.
local function rank(lock, time, who)
  local arrived = tonumber(pcall('ZSCORE', lock.arrivals, who) or nil) or time.now
  local front, p = pcall('LRANGE', lock.queue, 0, looked_at - 1), 0
  local arrivals = front[1] and pcall('ZMSCORE', lock.arrivals, unpack(front)) or {}
  while arrivals[p + 1] and arrivals[p + 1] + 0 < arrived do
    p = p + 1
  end
  return p, front[p + 1], front[p]
end

-- Finds the rank of a tenure whose place was lost: just before the first of our places that came later, or the last
-- one. The function returns how many places are before it, and the next one, or nothing for the last one.
--   came  when the tenure had come
local function rank_of_lost(lock, came)
  local from = string.format('(%.0f', came)
  for _, later in ipairs(pcall('ZRANGEBYSCORE', lock.arrivals, from, '+inf', 'LIMIT', '0', looked_at)) do
    local p = pcall('LPOS', lock.queue, later)
    if type(p) == 'number' then -- another program removes places, and does not know of this key
      return p, later
    end
  end
end

-- Gives a tenure a place, or keeps the place that it has. Returns within how many ms the tenure has to ask
-- again. It returns nil if the tenure has no place, because the keys are spoilt or the server is full.
--   came  when the tenure got a place, as it was told, or 0
local function place(lock, time, who, came)
  local p, next, before, wall = pcall('LPOS', lock.queue, who), nil, nil, fair_wall(time)
  if type(p) == 'table' then
    return nil
  end
  local asked, new = tonumber(pcall('ZSCORE', lock.places, who) or nil), not p
  local known = tonumber(pcall('ZSCORE', lock.deadlines, who) or nil)
  local lasts = pcall('GETRANGE', lock.lasts, '0', '-1')
  lasts = math.min(string.match(type(lasts) == 'string' and lasts or '', '^%d%d%d%d+$') or near_lasts, theirs_lasts)
  if p then
    -- Redis lets a script that has written something write on, also if the server is full.
    pcall('PEXPIRE', lock.places, theirs_lasts)
  end
  if new and asked then
    p, next, before = rank(lock, time, who)
    if not known and asked + lasts > wall then -- the clock of the program that removed it may be ahead
      lasts = math.min(10 * lasts, theirs_lasts)
      pcall('SET', lock.lasts, lasts, 'PX', theirs_lasts)
    end
  end
  local last, theirs
  if new and not asked then
    last, theirs = clear_end(lock, time)
    if came > 0 then
      p, next = rank_of_lost(lock, came)
    end
  end
  p = p or call('LLEN', lock.queue)
  local near = p < near_places
  lasts = near and lasts or math.max(lasts, far_lasts)
  local deadline = wall + lasts
  if next and last then -- it is as good as the one before which it comes
    deadline = math.max(deadline, tonumber(pcall('ZSCORE', lock.deadlines, next) or nil) or 0)
  elseif last then
    -- Redisson takes the time of a place of its own off all others when that place is granted the lock. So those that
    -- come after it have that much more.
    deadline = theirs and last + lasts or math.max(deadline, last)
  elseif p > 0 then
    -- The attempt makes up for the time that has passed since the last one.
    deadline = math.max(deadline, (known or 0) + math.max(0, wall - (asked or wall)))
  end
  local added = pcall('ZADD', lock.deadlines, string.format('%.0f', deadline), who)
  if new and type(added) == 'number' then
    if next or before then
      added = pcall('LINSERT', lock.queue, next and 'BEFORE' or 'AFTER', next or before, who)
    else
      added = pcall('RPUSH', lock.queue, who)
    end
  end
  if type(added) == 'table' then
    return string.find(added.err, 'READONLY', 1, true) and call('RPUSH', lock.queue, who) or nil
  end
  pcall('ZADD', lock.places, string.format('%.0f', wall), who)
  pcall('PEXPIRE', lock.places, theirs_lasts)
  time.arrival = math.max(time.now, (time.arrival or 0) + 1) -- a call may have places at several locks
  pcall('ZADD', lock.arrivals, 'NX', string.format('%.0f', came > 0 and came or time.arrival), who)
  pcall('PEXPIRE', lock.arrivals, theirs_lasts)
  return near and near_asks or far_asks
end

-- Counts the programs that may be ahead of a place and do not pass a lock on.
--   holder  who has the lock, or nil
--   ours    whether the holder is an agent
local function others(lock, holder, ours)
  if lock.room == 'unqueued' then
    return 1
  end
  local queued, known = call('LLEN', lock.queue), pcall('ZCARD', lock.places)
  local ahead = math.max(0, queued - (type(known) == 'number' and known or 0))
  return holder and not ours and math.max(1, ahead) or ahead
end

local first = clock_shows(time) -- the first line of the reply begins with it

-- Tries one lock, and returns what there is to say about it.
reply = answer(refused and '' or reply, n, rest, function(i)
  local a = per * (i - 1) + 2
  local who, lease, came = args[a + 1], args[a + 2], tonumber(per == 3 and args[a + 3] or nil)
  local asks = came ~= nil
  local lock = fair_lock(keys[i], string.sub(keys[n + i], 16), room)
  if type(pcall('ZSCORE', keys[n + i], who)) == 'string' then
    return 'w'
  end
  local left, holder, _, own = tenure_holder(lock, who)
  if not left then
    return 'e ' .. holder
  elseif refused then
    if asks and came > 0 and not own then
      place(lock, time, who, came)
    end
    return nil
  end
  local what, more = own and 'own' or holder and 'held', nil
  if not holder then
    what, more = fair_hand_on(lock, time, '-', who)
    if what == 'passed' then
      holder, left = more, pass_lease
    elseif what == 'told' then
      left = more
    end
  end
  if not what or what == 'own' then
    local token = tenure_begin(lock, time, who, held_as, lease, own and left or -2, own)
    if own then
      fair_leave(lock, who)
    elseif what then
      fair_drop(lock, who)
    end
    local contested = asks and what and pcall('EXISTS', lock.queue) == 1
    return (contested or token ~= first) and (contested and 'G ' or 'g ') .. token .. ' 0'
  end
  local ours = asks and tenure_want(lock, who, holder)
  local within = asks and place(lock, time, who, came)
  if within then
    return 'k ' .. within .. ' ' .. left .. ' ' .. others(lock, holder, ours) .. ' ' .. (holder or '')
  end
  return 'h ' .. left .. ' 0 ' .. (holder or '')
end)
return refused or reply

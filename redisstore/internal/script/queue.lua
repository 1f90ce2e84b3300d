-- queue.lua is a part of other scripts: the queue of a lock, a zset of the tenures that wait, by their time of arrival.
-- lock is as in tenure.lua, and time as in clock.lua.

--include clock.lua

--include ways.lua

local places_looked_at, standbys = 8, 2
local pass_lease = '2000' -- in ms

-- Gives a tenure the last place in the queue.
--   who  the place
-- Reports whether the tenure has a place. It has none if the key is spoilt, or the server full. A replica refuses the
-- whole call: no lock was changed. A new place removes the two before it if their agents are gone: the former life of a
-- program that crashes again and again is just before this one.
local function queue_place(lock, time, who)
  local added = pcall('ZADD', lock.queue, 'NX', clock_shows(time), who)
  if type(added) == 'table' then
    return string.find(added.err, 'READONLY', 1, true) and call('ZADD', lock.queue, clock_shows(time), who) == 1
  end
  call('PEXPIRE', lock.queue, '300000')
  if added == 1 then
    local last, names = call('ZRANGE', lock.queue, -3, -1), {}
    for p, other in ipairs(last) do
      names[p] = ways_channel_of(lock.room, string.match(other, '^([^:]*)'), lock.suffix)
    end
    local counts = ways_listeners(lock.room, names)
    for p, other in ipairs(last) do
      if counts[2 * p] == 0 and other ~= who then
        call('ZREM', lock.queue, other)
      end
    end
  end
  return true
end

-- Reports whether a tenure has the first place. Those before it whose agents are gone lose theirs.
local function queue_is_first(lock, who)
  for _ = 1, places_looked_at do
    local first = pcall('ZRANGE', lock.queue, 0, 0)[1]
    local channel = first ~= who and ways_channel_of(lock.room, string.match(first or '', '^([^:]*)'), lock.suffix)
    if not first or not channel or ways_listeners(lock.room, {channel})[2] > 0 then
      return first == who
    end
    call('ZREM', lock.queue, first)
  end
  return false
end

-- Looks at the first places. Returns a table:
--   places    the tenures
--   channels  of the lock, of lockagent_agents, and of the agent of each place p at p + 2
--   listens   how many listen there: to the k-th at 2k. It is nil without places, unless always
local function queue_front(lock, always)
  local places = lock.room ~= 'unqueued' and pcall('ZRANGE', lock.queue, 0, places_looked_at + standbys - 1) or {}
  local channels = {lock.channel, 'lockagent_agents' .. lock.suffix}
  for p, place in ipairs(places) do
    channels[p + 2] = ways_channel_of(lock.room, string.match(place, '^([^:]*)'), lock.suffix)
  end
  local listens = (always or places[1]) and ways_listeners(lock.room, channels)
  return {places = places, channels = channels, listens = listens}
end

-- Reports whether an agent that listens waits for what a tenure has: for a lock that the tenure keeps from it.
--   front   see queue_front
--   p       the first of the places that count
--   shares  reports of a place whether it may share the lock with the tenure; nil if none may
local function queue_contested(front, p, shares)
  for q = p, #front.places do
    if front.listens[2 * q + 4] > 0 and not (shares and shares(front.places[q])) then
      return true
    end
  end
  return false
end

-- Reports whether somebody waits for a lock that a tenure has alone: an agent or an outsider.
local function queue_wanted(lock)
  if lock.room == 'unqueued' then
    return false
  end
  local front = queue_front(lock, true)
  return ways_outsiders_among(front.listens) > 0 or queue_contested(front, 1, nil)
end

-- Tells the agent of a tenure that waits to try within so many ms. Returns as ways_publish.
local function queue_stand_by(lock, channel, who, ms)
  return ways_publish(lock.room, channel, lock.kind .. 'standby ' .. who .. ' ' .. ms .. ' ' .. lock.name)
end

-- Tells the agent of a tenure that the tenure has begun. Reports whether the agent heard.
--   token      of the tenure, as a text
--   outsiders  how many wait
--   trace      the trace context of the release, or "-"
--   total      the number of all permits and a space, or ''
--   contested  whether an agent waits that cannot have the lock while this tenure has it
local function queue_tell(lock, time, channel, who, token, outsiders, trace, total, contested)
  local incarnation = string.match(time.member, '^%S+')
  local name = incarnation == '-' and pcall('CLUSTER', 'MYID') or incarnation
  name = type(name) == 'string' and name or '-'
  return ways_was_heard(ways_publish(lock.room, channel, lock.kind .. (contested and 'passed+ ' or 'passed ') .. who ..
    ' ' .. token .. ' ' .. time.token .. ' ' .. name .. '/' .. time.ahead .. ' ' .. outsiders .. ' ' .. incarnation ..
    ' ' .. trace .. ' ' .. total .. lock.name))
end

-- Passes a lock that is free to the first tenures in the queue. Those whose agents are gone lose their places.
--   front      see queue_front
--   hooks      what the kind does:
--     take(lock, time, place)  begins the tenure of a place. Returns its token, or nil if the lock cannot pass now.
--                              The places then stay
--     back(lock, time, place)  takes that back
--     who(place)               returns the tenure of a place; nil if the place is the tenure
--     shares(place)            reports whether tenures may share the lock; nil if none may
--   outsiders, trace  see queue_tell
-- Returns how many tenures the lock was passed to, and which place is next.
local function queue_pass(lock, time, front, hooks, outsiders, trace)
  local passed, p = 0, 1
  while front.places[p] and p <= places_looked_at do
    local place, listens = front.places[p], front.listens[2 * p + 4] > 0
    local shares = hooks.shares and hooks.shares(place)
    if listens then
      local token = (passed == 0 or shares) and hooks.take(lock, time, place)
      if not token then
        break
      end
      call('ZREM', lock.queue, place)
      local who = hooks.who and hooks.who(place) or place
      local contested = queue_contested(front, p + 1, shares and hooks.shares)
      if queue_tell(lock, time, front.channels[p + 2], who, token, outsiders, trace, '', contested) then
        passed = passed + 1
        if not shares then
          return passed, p + 1
        end
      else
        hooks.back(lock, time, place)
      end
    else
      call('ZREM', lock.queue, place)
    end
    p = p + 1
  end
  return passed, p
end

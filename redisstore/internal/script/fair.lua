-- fair.lua is a part of other scripts: the places at a fair lock. Redisson's list has them in their order.
-- Redisson's zset has when a place is over, in ms. The program that has the place can make it last longer.
-- lockagent_places has the places of our agents, by the time of their last attempt in ms. lockagent_arrivals
-- has the same places, by the time when they came in microseconds.
--
-- A program with Redisson removes the first place if its own clock says that it is over. And it moves the times of all
-- places when it comes, gives up or is granted the lock. So these scripts never change the time of
-- another program's place, and a place of ours that such a program removed too early comes back.
--
-- time is that of the server. room says how messages travel, see release.lua. All other times are in ms.

--include ways.lua

local near_places = 32 -- these have to ask again soon
local near_asks, near_lasts = 2000, 6000
local far_asks, far_lasts = 10000, 30000
local takes_it, told_lasts, looked_at = 6000, 60000, 8
local stale = 30000 -- without an attempt
local theirs_lasts = 300000
local wall = time[1] * 1000 + math.floor(time[2] / 1000)

-- Returns the names of what belongs to a lock. suffix is that of our own keys.
local function fair_lock(lock, suffix)
  local theirs = string.gsub(suffix, '^::', ':')
  return {
    lock = lock, suffix = suffix,
    queue = 'redisson_lock_queue' .. theirs, deadlines = 'redisson_lock_timeout' .. theirs,
    places = 'lockagent_places' .. suffix, arrivals = 'lockagent_arrivals' .. suffix,
    lasts = 'lockagent_lasts' .. suffix, told = 'lockagent_told' .. suffix,
    channel = 'redisson_lock__channel' .. theirs,
  }
end

-- Takes a place away, and reports whether there was one.
local function leave(fair, place)
  local timed, ours = pcall('ZREM', fair.deadlines, place), pcall('ZREM', fair.places, place)
  if ours == 1 then
    pcall('ZREM', fair.arrivals, place)
  end
  return (timed == 1 or ours == 1) and pcall('LREM', fair.queue, 1, place) == 1
end

-- Takes the first place away.
local function drop(fair, place)
  pcall('LREM', fair.queue, 1, place)
  pcall('ZREM', fair.deadlines, place)
  if pcall('ZREM', fair.places, place) == 1 then
    pcall('ZREM', fair.arrivals, place)
  end
end

-- Tells the program that has a place to try now. It returns how many programs heard that.
local function tell(fair, place)
  return pcall(publish, fair.channel .. ':' .. place, '0')
end

-- Returns the agent that has a place, or nil if no lock passes to it, and whether this node counts it: see ways.lua. No lock passes
-- to an agent of a service without queues. It is told as other programs are, if it listens for that.
local function passes_to(fair, ours, place)
  local agent = room ~= 'unqueued' and ours and string.match(place, '^(.*):')
  if not agent then
    return nil, false
  end
  local counts = listeners({channel_of(agent, fair.suffix), fair.channel .. ':' .. place})
  return (counts[2] > 0 or counts[4] == 0) and agent, counts[2] > 0
end

-- Tells the agent that has a place to try within so many ms. It returns how many agents heard that.
local function stand_by(fair, place, ms)
  local channel = channel_of(string.match(place, '^(.*):'), fair.suffix)
  return pcall(publish, channel, message_kind .. 'standby ' .. place .. ' ' .. ms .. ' ' .. fair.lock)
end

-- Returns how much longer a free lock is kept for the program that has the first place: some seconds since
-- the program was told. If its place has moved since then, this is another time.
local function kept_for(fair, place)
  local score = pcall('ZSCORE', fair.deadlines, place)
  local deadline = tonumber(score or nil)
  if not deadline then -- nobody would ever remove it
    pcall('ZADD', fair.deadlines, string.format('%.0f', wall + takes_it), place)
    return takes_it
  end
  local this, told = score .. ' ' .. place, pcall('GETRANGE', fair.told, '0', '-1')
  local since, what = string.match(type(told) == 'string' and told or '', '^(%d+) (.*)$')
  if what ~= this or since + 0 > wall then
    since = wall
    pcall('SET', fair.told, string.format('%.0f ', wall) .. this, 'PX', told_lasts)
  end
  return math.min(deadline, since + takes_it) - wall
end

-- Looks for the first place whose program lives, and removes the dead ones before it. The lock is free.
-- If the place is of an agent, the lock passes to it. If it is of another program, that program is told,
-- and has some seconds to take the lock.
--
-- begin is as in begin.lua, for the lock. The function returns
--   'own'            if that is the place of asker
--   'passed', place
--   'told', ms       how long the lock is kept for the program
--   nil              if nobody waits
local function hand_on(fair, begin, trace, asker)
  for _ = 1, looked_at do
    local front = pcall('LRANGE', fair.queue, 0, 1)
    local place = front[1]
    if not place or place == asker then
      return place and 'own'
    end
    local ours = pcall('ZMSCORE', fair.places, unpack(front))
    local agent, counted = passes_to(fair, ours[1], place)
    if agent and not counted then
      drop(fair, place)
    elseif agent then
      local times, incarnation = begin(place)
      local heard = times and pcall(publish, channel_of(agent, fair.suffix), message_kind ..
        'passed ' .. place .. ' ' .. times .. ' 0 ' .. incarnation .. ' ' .. trace .. ' ' .. fair.lock) or stand_by(fair, place, 0)
      heard = type(heard) == 'number' and heard > 0
      if heard and not times then
        return 'told', 1
      end
      drop(fair, place)
      if heard then
        if ours[2] then
          stand_by(fair, front[2], pass_lease)
        end
        return 'passed', place
      elseif times then
        call('HDEL', fair.lock, place) -- the user may not publish
      end
    else
      local left = kept_for(fair, place)
      if left > 0 then
        tell(fair, place)
        if ours[1] then -- its agent may know of nobody who would tell the place by its own channel
          pcall('PUBLISH', 'lockagent_agent:' .. (string.match(place, '^(.*):') or ''), message_kind .. 'standby ' .. place .. ' 0 ' .. fair.lock)
        end
        return 'told', left
      end
      drop(fair, place)
    end
  end
  local front = pcall('LINDEX', fair.queue, 0)
  if type(front) == 'string' then -- there are more to look at. The next one is to do so, or all if it is gone
    local ours = room ~= 'unqueued' and type(pcall('ZSCORE', fair.places, front)) == 'string'
    if (ours and stand_by(fair, front, 0) or tell(fair, front)) == 0 then
      pcall(publish, fair.channel, '0')
    end
    return 'told', 1
  end
  return nil
end

-- fair.lua is a part of other scripts: the places at a fair lock. Redisson's list has them in their order.
-- Redisson's zset has when a place is over, in ms. The program that has the place can make it last longer.
-- lockagent_places has the places of our agents, by the time of their last attempt in ms. lockagent_arrivals
-- has the same places, by the time when they came in microseconds.
--
-- A program with Redisson removes the first place if its own clock says that it is over. And it moves the times of all
-- places when it comes, gives up or is granted the lock. So these scripts never change the time of
-- another program's place, and a place of ours that such a program removed too early comes back.
--
-- Times are in ms, but for a time of clock.lua.

--include queue.lua

--include tenure.lua

local near_places = 32 -- these have to ask again soon
local near_asks, near_lasts = 2000, 6000
local far_asks, far_lasts = 10000, 30000
local takes_it, told_lasts, looked_at = 6000, 60000, 8
local theirs_lasts = 300000

-- Returns a lock as in tenure.lua, with the keys of its places. suffix is that of our keys, and room is as in ways.lua.
local function fair_lock(name, suffix, room)
  local theirs = their_suffix(suffix)
  return {
    name = name, kind = 'fair ', suffix = suffix, room = room, held_as = '3',
    queue = 'redisson_lock_queue' .. theirs, deadlines = 'redisson_lock_timeout' .. theirs,
    places = 'lockagent_places' .. suffix, arrivals = 'lockagent_arrivals' .. suffix,
    lasts = 'lockagent_lasts' .. suffix, told = 'lockagent_told' .. suffix,
    channel = 'redisson_lock__channel' .. theirs,
  }
end

-- Returns the server's own time.
local function fair_wall(time)
  return math.floor(time.server / 1000)
end

-- Takes a place away, and reports whether there was one.
local function fair_leave(lock, place)
  local timed, ours = pcall('ZREM', lock.deadlines, place), pcall('ZREM', lock.places, place)
  if ours == 1 then
    pcall('ZREM', lock.arrivals, place)
  end
  return (timed == 1 or ours == 1) and pcall('LREM', lock.queue, 1, place) == 1
end

-- Takes the first place away.
local function fair_drop(lock, place)
  pcall('LREM', lock.queue, 1, place)
  pcall('ZREM', lock.deadlines, place)
  if pcall('ZREM', lock.places, place) == 1 then
    pcall('ZREM', lock.arrivals, place)
  end
end

-- Tells the program that has a place to try now. Returns as ways_publish.
local function fair_tell(lock, place)
  return ways_publish(lock.room, lock.channel .. ':' .. place, '0')
end

-- Tells the agent that has a place to try within so many ms. Returns as ways_publish.
local function fair_stand_by(lock, place, ms)
  local channel = ways_channel_of(lock.room, string.match(place, '^(.*):'), lock.suffix)
  return queue_stand_by(lock, channel, place, ms)
end

-- Returns the channel of the agent that has a place, or nil if no lock passes to it. Also returns whether this node
-- counts the agent: see ways.lua. No lock passes to an agent of a service without queues. It is told as other programs
-- are, if it listens for that.
--   ours  whether the place is of an agent
local function fair_passes_to(lock, ours, place)
  local agent = lock.room ~= 'unqueued' and ours and string.match(place, '^(.*):')
  if not agent then
    return nil, false
  end
  local channel = ways_channel_of(lock.room, agent, lock.suffix)
  local counts = ways_listeners(lock.room, {channel, lock.channel .. ':' .. place})
  return (counts[2] > 0 or counts[4] == 0) and channel, counts[2] > 0
end

-- Returns how much longer a free lock is kept for the program that has the first place: some seconds since the program
-- was told. If its place has moved since then, this is another time.
local function fair_kept_for(lock, time, place)
  local wall, score = fair_wall(time), pcall('ZSCORE', lock.deadlines, place)
  local deadline = tonumber(score or nil)
  if not deadline then -- nobody would ever remove it
    pcall('ZADD', lock.deadlines, string.format('%.0f', wall + takes_it), place)
    return takes_it
  end
  local this, told = score .. ' ' .. place, pcall('GETRANGE', lock.told, '0', '-1')
  local since, what = string.match(type(told) == 'string' and told or '', '^(%d+) (.*)$')
  if what ~= this or since + 0 > wall then
    since = wall
    pcall('SET', lock.told, string.format('%.0f ', wall) .. this, 'PX', told_lasts)
  end
  return math.min(deadline, since + takes_it) - wall
end

-- Passes a lock that is free to the first place, which is of an agent.
--   channel    of the agent
--   contested  whether there is a place behind it
-- Returns whether the agent heard, and whether it has the lock. If the lock cannot be passed now, the agent is told to
-- try.
local function fair_pass(lock, time, place, channel, trace, contested)
  local token = call('EXISTS', lock.name) == 0 and
    tenure_begin(lock, time, place, lock.held_as, pass_lease, -2, true)
  if not token then
    return ways_was_heard(fair_stand_by(lock, place, 0)), false
  elseif queue_tell(lock, time, channel, place, token, 0, trace, '', contested) then
    return true, true
  end
  call('HDEL', lock.name, place) -- the user may not publish
  return false, false
end

-- Looks for the first place whose program lives, and removes the dead ones before it. The lock is free.
-- If the place is of an agent, the lock passes to it. If it is of another program, that program is told,
-- and has some seconds to take the lock.
--   time   see clock.lua. It moves on
--   trace  the trace context of the release, or "-"
--   asker  a tenure that tries now, or nil
-- Returns
--   'own'            if that is the place of asker
--   'passed', place
--   'told', ms       how long the lock is kept for the program
--   nil              if nobody waits
local function fair_hand_on(lock, time, trace, asker)
  for _ = 1, looked_at do
    local front = pcall('LRANGE', lock.queue, 0, 1)
    local place = front[1]
    if not place or place == asker then
      return place and 'own'
    end
    local ours = pcall('ZMSCORE', lock.places, unpack(front))
    local channel, counted = fair_passes_to(lock, ours[1], place)
    if channel and counted then
      local heard, has = fair_pass(lock, time, place, channel, trace, front[2])
      if heard and not has then
        return 'told', 1
      end
      fair_drop(lock, place)
      if has then
        if ours[2] then
          fair_stand_by(lock, front[2], pass_lease)
        end
        return 'passed', place
      end
    else
      local left = channel and 0 or fair_kept_for(lock, time, place)
      if left > 0 then
        fair_tell(lock, place)
        if ours[1] then -- its agent may know of nobody who would tell the place by its own channel
          ways_tell(string.match(place, '^(.*):') or '', lock.kind .. 'standby ' .. place .. ' 0 ' .. lock.name)
        end
        return 'told', left
      end
      fair_drop(lock, place)
    end
  end
  local front = pcall('LINDEX', lock.queue, 0)
  if type(front) == 'string' then -- there are more to look at. The next one is to do so, or all if it is gone
    local ours = lock.room ~= 'unqueued' and type(pcall('ZSCORE', lock.places, front)) == 'string'
    if (ours and fair_stand_by(lock, front, 0) or fair_tell(lock, front)) == 0 then
      ways_publish(lock.room, lock.channel, '0')
    end
    return 'told', 1
  end
  return nil
end

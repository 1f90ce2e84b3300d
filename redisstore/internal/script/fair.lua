-- fair.lua is a part of other scripts: the places at a fair lock. Redisson's list has them in their order.
-- Redisson's zset has the time in ms at which each of them is over, unless its program does something.
-- lockagent_places has those of our agents, by the time in ms of their last attempt.
--
-- time is that of the server, because Redisson compares it with the clocks of its clients. mode says how
-- messages travel, see release.lua. All times are in ms.

local near_places = 32 -- these have to ask again soon
local near_asks, near_lasts = 2000, 6000
local far_asks, far_lasts = 10000, 30000
local takes_it, looked_at = 6000, 8
local stale = 30000 -- without an attempt
local theirs_lasts = 300000
local wall = time[1] * 1000 + math.floor(time[2] / 1000)

-- Returns the names of what belongs to a lock. suffix is that of our own keys.
local function fair_lock(lock, suffix, mode)
  local theirs = string.gsub(suffix, '^::', ':')
  return {
    lock = lock, mode = mode, agents = mode == 'sharded' and suffix or '', publish = mode == 'sharded' and 'SPUBLISH' or 'PUBLISH',
    queue = 'redisson_lock_queue' .. theirs, deadlines = 'redisson_lock_timeout' .. theirs,
    places = 'lockagent_places' .. suffix, waiter = 'redisson_lock__channel' .. theirs .. ':',
  }
end

-- Takes a place away, and reports whether there was one.
local function leave(fair, place)
  local timed, ours = pcall('ZREM', fair.deadlines, place), pcall('ZREM', fair.places, place)
  return (timed == 1 or ours == 1) and pcall('LREM', fair.queue, 1, place) == 1
end

-- Takes the first place away.
local function drop(fair, place)
  pcall('LREM', fair.queue, 1, place)
  pcall('ZREM', fair.deadlines, place)
  pcall('ZREM', fair.places, place)
end

-- Tells the program that has a place to try now.
local function tell(fair, place)
  pcall(fair.publish, fair.waiter .. place, '0')
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
    local agent = fair.mode ~= 'classic' and ours[1] and string.match(place, '^(.*):')
    if agent then
      local times, incarnation = begin(place)
      local heard = pcall(fair.publish, 'lockagent_agent:' .. agent .. fair.agents, message_kind .. (times and
        'passed ' .. place .. ' ' .. times .. ' 0 ' .. incarnation .. ' ' .. trace .. ' ' .. fair.lock or
        'standby ' .. place .. ' 0 ' .. fair.lock))
      heard = type(heard) == 'number' and heard > 0
      if heard and not times then
        return 'told', 1
      end
      drop(fair, place)
      if heard then
        if ours[2] then
          local next = string.match(front[2], '^(.*):') or ''
          pcall(fair.publish, 'lockagent_agent:' .. next .. fair.agents,
            message_kind .. 'standby ' .. front[2] .. ' ' .. pass_lease .. ' ' .. fair.lock)
        end
        return 'passed', place
      elseif times then
        call('HDEL', fair.lock, place)
      end
    else
      local deadline = tonumber(pcall('ZSCORE', fair.deadlines, place) or nil)
      if not deadline or deadline > wall then
        local latest = wall + takes_it
        if not deadline or deadline > latest then
          deadline = latest
          pcall('ZADD', fair.deadlines, string.format('%.0f', latest), place)
        end
        tell(fair, place)
        return 'told', deadline - wall
      end
      drop(fair, place)
    end
  end
  local front = pcall('LINDEX', fair.queue, 0)
  if type(front) == 'string' then -- there are more to look at
    tell(fair, front)
    return 'told', 1
  end
  return nil
end

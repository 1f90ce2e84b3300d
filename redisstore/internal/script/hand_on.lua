-- hand_on.lua is a part of scripts that release. lock is as in tenure.lua, and time as in clock.lua.

--include queue.lua

--include turns.lua

-- Returns how many other agents a release woke as a reply says it, or nil if it woke none, or nobody can tell how many.
--   flags   of the release, see release.lua
--   others  what ways_publish has returned
local function woke(room, flags, others)
  local subscribed = string.find(flags, 's', 1, true) and 1 or 0
  if type(others) ~= 'number' then -- the user may not publish there
    return room ~= 'unqueued' and 'r -1' or nil
  end
  return room ~= 'unqueued' and others > subscribed and 'r ' .. (others - subscribed) or nil
end

-- All who wait for a lock that is free were woken. If outsiders are among them, the lock is left to them for a while.
--   flags      of the release, see release.lua
--   others     what ways_publish has returned
--   outsiders  how many wait, or nil if they were not counted
--   theirs     whether it is their turn
-- Returns what the reply says about the lock, or nil.
local function queue_woken(lock, time, flags, others, outsiders, theirs)
  local line = woke(lock.room, flags, others)
  if not outsiders and line and type(others) == 'number' then
    outsiders = ways_outsiders(lock.room, lock.channel, lock.suffix)
  end
  if theirs or outsiders and outsiders > 0 then
    turns_yield(lock, time, theirs and call('ZCARD', lock.queue) + 1 or 1)
  end
  return line
end

-- Hands on a lock that is free: it passes to the first in the queue, unless it is the turn of others. Otherwise all
-- waiters are woken.
--   hooks    see queue_pass
--   payload  what wakes the waiters
--   flags    of the release, see release.lua
-- Returns what the reply says about the lock, or nil. If the lock was passed, it also returns how many outsiders wait,
-- and the next place, or nil.
local function queue_hand_on(lock, time, hooks, payload, flags)
  local front, outsiders, theirs = queue_front(lock), nil, false
  if front.places[1] then
    local expected
    outsiders = ways_outsiders_among(front.listens)
    theirs, expected = turns_theirs(lock, outsiders)
    if not theirs and (outsiders > 0 or turns_foreign(lock, time, true) == 0) then
      local passed, next = queue_pass(lock, time, front, hooks, expected, string.match(flags, 't(.+)') or '-')
      if passed > 0 then
        for p = next, math.min(next + standbys - 1, #front.places) do
          local who = hooks.who and hooks.who(front.places[p]) or front.places[p]
          queue_stand_by(lock, front.channels[p + 2], who, pass_lease)
        end
        return 'p', outsiders, front.places[next]
      end
    end
  end
  return queue_woken(lock, time, flags, ways_publish(lock.room, lock.channel, payload), outsiders, theirs)
end

-- rw_pass.lua is a part of the scripts that pass read/write locks. It needs ways.lua, begin.lua and rw.lua before it.
-- ahead_key is the name of ahead, or of the clock. ahead is the value.

local places_looked_at, standbys = 8, 2

-- Returns the first places in the queue, and the channels and the numbers of subscribers: of the lock, of the
-- agents, and of the agent of each place p at p + 2.
local function waiting(queue, channel, suffix)
  local front = room ~= 'unqueued' and pcall('ZRANGE', queue, 0, places_looked_at + standbys - 1) or {}
  local names, counts = {channel, 'lockagent_agents' .. suffix}, {}
  for p, place in ipairs(front) do
    names[p + 2] = channel_of(string.match(place, '^[^:]*'), suffix)
  end
  if front[1] then
    counts = listeners(names)
    counts[2] = counts[4] + outsiders_among(counts)
  end
  return front, names, counts
end

-- Passes a lock to a tenure that waits, and reports whether its agent was told. It returns nil if it
-- cannot pass the lock now: the tenure keeps its place.
local function pass(lock, suffix, queue, field, channel, joins, outsiders, trace)
  local tenure = tenure_of(field)
  local times, incarnation = begin(ahead_key, ahead, lock, field, joins)
  if not times then
    return nil
  end
  if field ~= tenure then
    call('HSET', lock, 'mode', 'write')
  else
    call('HSET', lock, 'mode', 'read')
    keep(lock, suffix, tenure, pass_lease)
  end
  call('ZREM', queue, field)
  local heard = pcall(publish, channel, 'readwrite passed ' .. tenure .. ' ' .. times .. ' ' .. outsiders .. ' ' ..
    incarnation .. ' ' .. trace .. ' ' .. lock)
  if type(heard) == 'number' and heard > 0 then
    return true
  end
  if field == tenure then
    drop(lock, suffix, tenure)
  end
  if not joins then
    call('DEL', lock)
  end
  return false
end

-- Passes a lock to those in front of the queue: to one writer, or to the readers up to the first writer. It
-- removes the places of agents that are gone. If joins, readers have the lock already. Returns how many were passed the
-- lock, the next place, and whether there may be more readers.
local function pass_on(lock, suffix, queue, front, names, counts, joins, outsiders, trace)
  local passed, p = 0, 1
  while front[p] and p <= places_looked_at do
    local writes, listens = string.find(front[p], ':write$'), counts[2 * p + 4] > 0
    if listens and writes and joins then
      return passed, p, false
    elseif not listens then
      call('ZREM', queue, front[p])
    else
      local told = pass(lock, suffix, queue, front[p], names[p + 2], joins, outsiders, trace)
      if told == nil then
        return passed, p, false
      elseif told and writes then
        return 1, p + 1, false
      elseif told then
        passed, joins = passed + 1, true
      end
    end
    p = p + 1
  end
  return passed, p, front[p] and not (string.find(front[p], ':write$') and counts[2 * p + 4] > 0)
end

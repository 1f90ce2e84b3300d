-- rw_release.lua ends a tenure of each of n read/write locks, or withdraws a tenure that has not begun, for one agent.
-- Its keys, arguments and reply are those of release.lua, with these differences:
--
--   * The arguments name a tenure without its mode: the script finds it in either mode.
--   * The flags of a lock are always there.
--
-- When the last tenure leaves, the first writer in the queue gets the lock, or all readers in front do. If nobody in
-- the queue gets it, the script publishes "1" after a writer, and "0" after a reader. A reader that leaves others
-- behind wakes nobody. The hash then lasts until the leases of all of them are over. If another program has one of
-- them, the end of the hash stays as it is.

local call, pcall, keys, args = redis.call, redis.pcall, KEYS, ARGV
local seen = call('TIME')
local n = (#keys - 1) / 2
--include rw_free.lua

--include still.lua
local moving = args[1] ~= 'single' and moves(keys[1], keys[2 * n + 1])
if moving then
  return moving
end

-- First the places are taken back. Redis lets a script that has written something write on, also if the server is
-- full. So no tombstone is lost.
local waited = {}
for i = 1, n do
  local who = args[3 * i]
  waited[i] = pcall('ZREM', keys[n + i], who .. ':write')
  if type(waited[i]) == 'table' and string.find(waited[i].err, 'READONLY', 1, true) then
    return waited[i] -- a replica: nothing was done, and another server can do it
  end
  pcall('ZREM', keys[n + i], who)
end

--include clock.lua

--include notes.lua

--include ways.lua

--include rw.lua

--include answer.lua

local time = clock_read('lockagent_clock' .. string.sub(keys[2 * n + 1], 16), seen)
clock_raise(time, args[2] + 0)

-- Ends a tenure of a lock. Returns what there is to say about the lock, or nil. If nobody has the lock now, it also
-- returns what wakes the waiters.
--   waits  whether a writer has just lost its place
--   flags  see release.lua
local function rw_end(lock, now, who, waits, flags)
  local seen_as = pcall('HMGET', lock.name, 'mode', who .. ':write')
  if seen_as[1] == 'write' and seen_as[2] then
    call('DEL', lock.name)
    return nil, '1'
  end
  local err, mode, list, whole = rw_look(lock, now)
  if err then
    return string.sub(err, 1, 5) == 'KIND ' and 'n' or 'e ' .. err
  elseif not rw_drop(lock, who) then
    if waits and mode == 'read' then
      ways_publish(lock.room, lock.channel, '1') -- the tenure may have kept readers out
    end
    return mode == 'write' and has_foreign(list, false) and 'n' or clock_not_there(now, flags)
  elseif call('HLEN', lock.name) == 1 then
    call('DEL', lock.name) -- what is left is the mode
    return nil, '0'
  end
  local most, wall = 0, math.floor(now.server / 1000) -- how long the others read on, in ms
  for p, ends in ipairs(whole and pcall('ZMSCORE', lock.readers, unpack(list)) or {}) do
    if list[p] ~= who then
      most = math.max(most, ends and ends - wall > 0 and ends - wall or math.huge)
    end
  end
  if most > 0 and most < math.huge then
    call('PEXPIRE', lock.name, most)
  end
end

local locks, said, freed, free = {}, {}, {}, false
for i = 1, n do
  local who, lock = args[3 * i], rw_lock(keys[i], string.sub(keys[n + i], 16), args[1])
  if string.find(args[3 * i + 2], 'u', 1, true) then
    note(lock.suffix, time.now, who, time.now)
  end
  locks[i] = lock
  said[i], freed[i] = rw_end(lock, time, who, waited[i] == 1, args[3 * i + 2])
  free = free or freed[i]
end
if not free then
  return answer(clock_shows(time), n, nil, function(i) return said[i] end)
end

--include tenure.lua

--include hand_on.lua

local hooks = {
  who = rw_tenure,
  shares = function(place) return place == rw_tenure(place) end,
  take = function(lock, now, place)
    local reads = place == rw_tenure(place)
    local token = tenure_begin(lock, now, place, '1', pass_lease, call('PTTL', lock.name), true)
    if token then
      call('HSET', lock.name, 'mode', reads and 'read' or 'write')
    end
    if token and reads then
      rw_keep(lock, now, place, pass_lease)
    end
    return token
  end,
  back = function(lock, _, place)
    rw_drop(lock, place)
    if call('HLEN', lock.name) == 1 then
      call('DEL', lock.name) -- what is left is the mode
    end
  end,
}

-- The locks that are free pass to those who wait, or wake them.
return answer(clock_shows(time), n, nil, function(i)
  local lock, payload = locks[i], freed[i]
  if not payload then
    return said[i]
  end
  local polls = payload == '0' and pcall('ZMSCORE', 'lockagent_notes' .. lock.suffix, 'polls')[1]
  if polls and turns_kept(time, polls) > 0 then
    turns_begin(lock, time) -- readers were asked to leave for it, and have done so
  end
  local line, outsiders, next = queue_hand_on(lock, time, hooks, payload, args[3 * i + 2])
  local wanted = line == 'p' and (outsiders > 0 or next and hooks.shares(next))
  if wanted and call('HMGET', lock.name, 'mode')[1] == 'read' then
    ways_publish(lock.room, lock.channel, '1') -- they may share the lock
  end
  return line
end)

-- rw_renew.lua starts the leases of n tenures of read/write locks anew, and makes tenures shared. It never shortens a
-- lease.
--
-- KEYS[i]    lock i: a hash, see rw.lua
-- KEYS[n+1]  the clock, see acquire.lua
-- ARGV[1]    how messages travel, see release.lua
-- Then for each lock
--   the tenure, "<agent>:<number>"
--   the lease in ms
--   "read" if the tenure is to read from now on: a writer then becomes a reader, and others may join it. "watched" as
--   in renew.lua, or ""
--
-- Reply: as for renew.lua. A reader is contested if a writer waits for what it has, also if it is not watched.
-- While the slot moves to another node, a reader is renewed if all of its keys are at one node. A writer becomes a
-- reader when the slot has moved: the next renewal asks again.

local call, pcall, keys, args = redis.call, redis.pcall, KEYS, ARGV

--include clock.lua

--include turns.lua

--include rw_wait.lua

--include answer.lua

local n = math.floor((#args - 1) / 3)
local time = clock_read(keys[n + 1], call('TIME'))
local at = clock_shows(time)

-- Has a lock live for a lease in ms, at least. It is always a write: servers count replicas only for connections that
-- wrote.
local function rw_extend(lock, lease)
  call('PEXPIRE', lock.name, math.max(call('PTTL', lock.name), lease))
end

-- Returns an error if keys of a reader are at another node, or nil.
local function rw_apart(lock, who)
  local found = pcall('EXISTS', lock.name, rw_timeout(lock, who), lock.readers)
  return type(found) == 'table' and found or nil
end

-- Makes a writer a reader, and wakes those who wait to read.
local function rw_downgrade(lock, now, who)
  rw_keep(lock, now, who, call('PTTL', lock.name))
  call('HDEL', lock.name, who .. ':write')
  call('HSET', lock.name, who, '1', 'mode', 'read')
  ways_publish(lock.room, lock.channel, '1')
end

-- Reports whether a writer waits for readers: one of ours, or of another program. Only writers do, if nothing keeps
-- readers out.
local function rw_wanted(lock, now)
  return lock.room ~= 'unqueued' and (ways_outsiders(lock.room, lock.channel, lock.suffix) > 0 or
    rw_writer_waits(lock, nil) or turns_foreign(lock, now, true) > 0)
end

-- Removes a reader if it is over, and reports whether it is.
local function rw_expired(lock, now, who)
  local ends = pcall('ZSCORE', lock.readers, who)
  if type(ends) ~= 'string' or ends * 1000 > now.server or not rw_over(lock, who) then
    return false
  end
  rw_drop(lock, who)
  if call('HLEN', lock.name) == 1 then
    call('DEL', lock.name) -- what is left is the mode
    ways_publish(lock.room, lock.channel, '0')
  end
  return true
end

local reply = answer(at, n, nil, function(i)
  local lock, who = rw_lock(keys[i], own_suffix(keys[i]), args[1]), args[3 * i - 1]
  local lease, reads, watched = args[3 * i], args[3 * i + 1] == 'read', args[3 * i + 1] == 'watched'
  local counts = pcall('HMGET', lock.name, who, who .. ':write')
  if counts.err and not string.find(counts.err, 'WRONGTYPE', 1, true) then
    return 'e ' .. counts.err
  elseif not counts[1] and not counts[2] or counts[1] and rw_expired(lock, time, who) then
    rw_drop(lock, who) -- what is no lock any more is not held
    return clock_grants(time) and 'n' or 'f'
  end
  local apart = (counts[1] or reads) and rw_apart(lock, who)
  if counts[1] and apart then
    return 'e ' .. apart.err
  end
  rw_extend(lock, lease)
  if counts[1] then
    rw_keep(lock, time, who, lease)
  elseif not reads or apart then
    return watched and queue_wanted(lock) and 'w' or nil
  else
    rw_downgrade(lock, time, who)
  end
  return rw_wanted(lock, time) and 'w' or nil
end)
return clock_confirm(time) or reply

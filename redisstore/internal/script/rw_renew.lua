-- rw_renew.lua starts the leases of n tenures of read/write locks anew, and makes tenures shared. It never shortens a
-- lease.
--
-- KEYS[i]    lock i: a hash, see rw.lua
-- KEYS[n+1]  the clock, see acquire.lua
-- ARGV[1]    how messages travel, see release.lua
-- Then for each lock
--   the tenure, "<agent>:<number>"
--   the lease in ms
--   "read" if the tenure is to read from now on: a writer then becomes a reader, and others may join it
--
-- Reply: as for renew.lua. A reader that is renewed while a writer waits for what it has is another line:
--   i w
-- While the slot moves to another node, a reader is renewed if all of its keys are at one node. A writer becomes a reader
-- when the slot has moved: the next renewal asks again.

local call, pcall, keys, args = redis.call, redis.pcall, KEYS, ARGV

--include old_clock.lua

--include holders.lua

local n = math.floor((#args - 1) / 3)
local ahead_key = keys[n + 1]
local at, entry, server = time_of(ahead_key)
local clock, room = at + 0, args[1]

--include old_ways.lua

--include rw.lua

--include foreign.lua

--include still.lua

local function extend(lock, lease) -- always a write, see renew.lua
  local left = call('PTTL', lock)
  if left < lease + 0 then
    call('PEXPIRE', lock, lease)
  else
    call('PEXPIRE', lock, left)
  end
end

-- Makes a writer a reader. Reports whether it is one.
local function downgrade(lock, suffix, tenure, lease)
  extend(lock, lease)
  if room ~= 'single' and moves(lock, ahead_key) then
    return false
  end
  keep(lock, suffix, tenure, call('PTTL', lock))
  call('HDEL', lock, tenure .. ':write')
  call('HSET', lock, tenure, '1', 'mode', 'read')
  pcall(publish, 'redisson_rwlock' .. their_suffix(suffix), '1')
  return true
end

-- Reports whether a writer waits for readers: one of ours, or of another program. Only writers do, if nothing keeps readers out.
local function is_wanted(suffix)
  if room == 'unqueued' then
    return false
  end
  local channel = 'redisson_rwlock' .. their_suffix(suffix)
  return outsiders_of(channel, suffix) > 0 or writer_waits(suffix, nil) or
    foreign_turn(suffix, true) ~= nil
end

-- Renews a reader, and reports whether it still is one, or an error. It also reports whether somebody waits for what
-- it has.
local function read_on(lock, suffix, tenure, lease)
  local ends = pcall('ZSCORE', 'lockagent_readers' .. suffix, tenure)
  if type(ends) == 'string' and ends + 0 <= wall and over(lock, suffix, tenure) then
    drop(lock, suffix, tenure)
    if call('HLEN', lock) == 1 then
      call('DEL', lock) -- what is left is the mode
      pcall(publish, 'redisson_rwlock' .. their_suffix(suffix), '0')
    end
    return false
  end
  local all = pcall('EXISTS', lock, timeout_key(suffix, tenure), 'lockagent_readers' .. suffix)
  if type(all) == 'table' then
    return all -- one of them is at another node
  end
  keep(lock, suffix, tenure, lease)
  extend(lock, lease)
  return true, is_wanted(suffix)
end

local lines = {at}
for i = 1, n do
  local lock, tenure, lease, reads = keys[i], args[3 * i - 1], args[3 * i], args[3 * i + 1] == 'read'
  local suffix, counts = own_suffix(lock), pcall('HMGET', lock, tenure, tenure .. ':write')
  local held, wanted = counts.err and counts or false, false
  if counts[1] then
    held, wanted = read_on(lock, suffix, tenure, lease)
  elseif counts[2] then
    held = true
    if reads then
      wanted = downgrade(lock, suffix, tenure, lease) and is_wanted(suffix)
    else
      extend(lock, lease)
    end
  end
  if held ~= true then
    -- What is no lock any more is not held.
    local over = type(held) ~= 'table' or string.find(held.err, 'WRONGTYPE', 1, true)
    if over then
      forget(suffix, tenure)
    end
    lines[#lines + 1] = i .. (over and ' n' or ' e ' .. held.err)
  elseif wanted then
    lines[#lines + 1] = i .. ' w'
  end
end
if entry[1] then
  local raised = pcall('ZADD', ahead_key, 'GT', at, entry[1]) -- unless the server is full
  if type(raised) == 'table' and string.find(raised.err, 'READONLY', 1, true) then
    return raised -- a replica may not have the tenures yet, or not any more
  end
end
return table.concat(lines, '\n')

-- rw_reassert.lua puts n tenures of read/write locks back in a grace period, see grace.lua, and starts their leases
-- anew.
--
-- KEYS[i]    lock i: a hash, see rw.lua
-- KEYS[n+1]  the clock, see acquire.lua
-- ARGV[1]    the incarnation
-- Then for each lock
--   the tenure, "<agent>:<number>"
--   the lease in ms
--   the last token of the tenure, as in reassert.lua
--   "read" if the tenure shares the lock with readers, or "write"
--
-- Reply: as for reassert.lua.

local call, pcall, keys, args = redis.call, redis.pcall, KEYS, ARGV

--include grace.lua

--include tenure.lua

--include rw.lua

--include answer.lua

local n = (#args - 1) / 4
local time = clock_read(keys[n + 1], call('TIME'))
local over = grace_over(time, args[1])
if over then
  return over
end
local reply = answer(clock_shows(time), n, nil, function(i)
  local a, lock = 4 * (i - 1) + 1, rw_lock(keys[i], own_suffix(keys[i]), 'single')
  local who, lease, last, reads = args[a + 1], args[a + 2], args[a + 3] + 0, args[a + 4] == 'read'
  local err, mode, list, whole = rw_look(lock, time)
  if err then
    return (string.find(err, '^KIND') or string.find(err, 'WRONGTYPE', 1, true)) and 'n' or 'e ' .. err
  end
  local counts = call('HMGET', lock.name, who, who .. ':write')
  local shares = reads and (mode == 'read' or counts[2]) -- a writer that becomes a reader has the lock
  local mine = counts[1] or counts[2]
  if not mine and not shares and has_foreign(list, not whole) or not grace_claim(time, lock.name, last, reads) then
    return 'n'
  end
  if mode and not mine and not shares then -- they are of tenures before
    call('DEL', lock.name, lock.readers)
  end
  if reads then
    call('HSET', lock.name, who, '1', 'mode', 'read')
    call('HDEL', lock.name, who .. ':write')
    rw_keep(lock, time, who, lease)
  else
    call('HSET', lock.name, who .. ':write', '1', 'mode', 'write')
  end
  call('PEXPIRE', lock.name, math.max(call('PTTL', lock.name), lease))
end)
return clock_confirm(time) or reply

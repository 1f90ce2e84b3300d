-- reassert.lua puts n tenures of plain, fair, spin or fenced locks back in a grace period, see grace.lua, and starts
-- their leases anew.
--
-- KEYS[i]      lock i: a hash with one field, the tenure that has the lock
-- KEYS[n+1]    the clock, see acquire.lua
-- KEYS[n+1+i]  the token key of lock i if the locks are fenced, see fence.lua
-- ARGV[1]      the incarnation
-- ARGV[2]      the value of the fields of tenures, see kinds.lua
-- Then for each lock
--   the tenure, "<agent>:<number>"
--   the lease in ms
--   the last token of the tenure, or 0 if it had no holds. Such a tenure is not put back
--
-- Reply: as for renew.lua. A tenure is over if another program has the lock, or another tenure with a greater token
-- claims it. It is an error if the period is over: then make a renewal.

local call, pcall, keys, args = redis.call, redis.pcall, KEYS, ARGV

--include fence.lua

--include grace.lua

--include holders.lua

--include answer.lua

local time = clock_read(keys[(#args - 2) / 3 + 1], call('TIME'))
local over = grace_over(time, args[1])
if over then
  return over
end
local n, at = (#args - 2) / 3, clock_shows(time)
local reply = answer(at, n, nil, function(i)
  local lock, fence, who, lease, last = keys[i], keys[n + 1 + i], args[3 * i], args[3 * i + 1], args[3 * i + 2] + 0
  local err, holder, _, own, _, fields = holders(lock, who)
  if err then
    return string.find(err, '^KIND') and 'n' or string.find(err, 'WRONGTYPE', 1, true) and 'n' or 'e ' .. err
  elseif not own and has_foreign(fields, false) or not grace_claim(time, lock, last, false) then
    return 'n'
  end
  local left = own and call('PTTL', lock) or 0
  if holder and not own then
    call('DEL', lock) -- it is of a tenure before
  end
  call('HSET', lock, who, args[2])
  call('PEXPIRE', lock, math.max(left, lease))
  if fence and own then
    fence_extend(fence, lease + 0, left, at + 0)
  elseif fence then
    fence_set(fence, math.max(fence_read(fence) or 0, last) + lease * 1000)
  end
end)
return clock_confirm(time) or reply

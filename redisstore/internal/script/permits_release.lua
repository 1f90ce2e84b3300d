-- permits_release.lua ends a tenure of a semaphore, or withdraws a tenure that has not begun, see
-- permits.lua.
--
-- ARGV[7]  the greatest token of the tenure, or 0 if the clock is known to have reached it
-- ARGV[8]  the tenure
-- ARGV[9]  flags, as of release.lua
--
-- Reply: as of release.lua, for one lock.

local call, pcall = redis.call, redis.pcall

--include permits_id.lua

--include permits_free.lua

--include holders.lua

--include number.lua

--include permits.lua

--include permits_tenures.lua

--include permits_share.lua

local tenure, flags = ARGV[8], ARGV[9]
-- A semaphore that somebody deleted may be set as the other kind by now. Then the tenure is over, and only its place is left.
if refused and call('ZSCORE', tenures, tenure) then
  return redis.error_reply(refused)
end
local gained, n, whole = false, nil, false
if not refused then
  gained = reclaim()
  n, whole = has(tenure)
end
if n then
  drop(tenure, n)
end
local placed = pcall('ZREM', queue, tenure)
if type(placed) == 'table' and not string.find(placed.err, 'WRONGTYPE', 1, true) then
  return placed -- the server takes no writes: nothing was done
end
pcall('HDEL', wanted, tenure)
if ARGV[7] ~= '0' then
  local at, member, guard = shows()
  if member and ARGV[7] + 0 > guard and ARGV[7] + 0 < at + 86400e6 then
    call('ZADD', ARGV[6], ARGV[7], member)
  end
end
if string.find(flags, 'u', 1, true) then
  note(suffix, clock, tenure)
end
local at = digits((shows())) -- permits that are passed on are granted later
local passed, others = false, 0
if not refused and (gained or n or placed == 1 and free and free > 0) then -- it may have been in the way of smaller requests
  passed, others = share(string.match(flags, 't(.+)') or '-')
end
if not whole then
  return at .. '\n1 n'
elseif passed then
  return at .. '\n1 p'
elseif room == 'unqueued' then
  return at
end
local subscribed = string.find(flags, 's', 1, true) and 1 or 0
return at .. '\n1 r ' .. (others < 0 and -1 or math.max(0, others - subscribed))

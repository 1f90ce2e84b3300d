-- permits_renew.lua starts the lease of a tenure of a semaphore anew, see permits.lua. It never
-- shortens a lease. It does without the keys of the queue, which are often absent: so tenures are renewed
-- also while a slot migrates. It wakes the waiters, and passes nothing.
--
-- ARGV[7]  the tenure
-- ARGV[8]  the lease in ms
--
-- Reply: as of renew.lua, for one lock.

local call, pcall = redis.call, redis.pcall

--include holders.lua

--include number.lua

--include permits_id.lua

--include permits.lua

--include permits_tenures.lua

-- A semaphore that somebody deleted may be set as the other kind by now.
if refused and call('ZSCORE', tenures, ARGV[7]) then
  return redis.error_reply(refused)
elseif refused then
  return digits((shows())) .. '\n1 n'
end
local gained = reclaim()
local n, whole = has(ARGV[7])
if whole then
  call('HDEL', taken, '') -- changes nothing. But after a first write a server that is full takes others
  extend(ARGV[7], n, ARGV[8] + 0)
  pcall('INCRBY', lock, 0) -- always a write, see renew.lua
elseif n then
  drop(ARGV[7], n)
end
if (gained or n and not whole) and free and free > 0 then
  pcall(publish, channel, digits(free))
end
local at, member = shows()
if member then
  call('ZADD', ARGV[6], 'GT', digits(at), member)
end
return digits(at) .. (whole and '' or '\n1 n')

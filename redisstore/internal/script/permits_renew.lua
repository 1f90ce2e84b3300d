-- permits_renew.lua starts the lease of a tenure of a semaphore anew, see permits.lua. It never
-- shortens a lease. It does without the keys of the queue, which are often absent: so tenures are renewed
-- also while a slot migrates. It wakes the waiters, and passes nothing.
--
-- ARGV[7]  the tenure
-- ARGV[8]  the lease in ms
-- ARGV[9]  "watched" if the holder watches who waits, or ""
--
-- Reply: as of renew.lua, for one lock. It is contested if somebody waits for more permits than are free.

local call, pcall = redis.call, redis.pcall
local seen = call('TIME')

--include permits.lua

local s, err = permits_read(KEYS[1], ARGV, seen)
local time, who = clock_read(ARGV[6], seen), ARGV[7]
-- A semaphore that somebody deleted may be set as the other kind by now.
if err and call('ZSCORE', s.tenures, who) then
  return redis.error_reply(err)
elseif err then
  return clock_shows(time) .. (clock_grants(time) and '\n1 n' or '\n1 f')
end
local back = permits_reclaim(s)
local n, own = permits_has(s, who)
if own then
  call('HDEL', s.taken, '') -- changes nothing. But after a first write a server that is full takes others
  permits_extend(s, who, n, ARGV[8] + 0)
  pcall('INCRBY', s.name, 0) -- always a write, see renew.lua
elseif n then
  permits_drop(s, who, n)
end
if back or n and not own then
  permits_wake(s)
end
if time.member then
  call('ZADD', time.key, 'GT', clock_shows(time), time.member)
end
local wanted = own and ARGV[9] ~= '' and queue_wanted(s)
return clock_shows(time) .. (own and (wanted and '\n1 w' or '') or clock_grants(time) and '\n1 n' or '\n1 f')

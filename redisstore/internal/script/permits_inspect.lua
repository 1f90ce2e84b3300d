-- permits_inspect.lua tells how many permits of a semaphore are taken, see permits.lua. It changes nothing, and does
-- not count permits whose leases are over.
--
-- Reply: as of inspect.lua, with the number of permits as the hold count, and without a holder.

local call, pcall = redis.call, redis.pcall

--include permits.lua

local s, err = permits_read(KEYS[1], ARGV, call('TIME'))
if err then
  return redis.error_reply(err)
end
local count = (s.ids or s.free) and permits_taken(s) or 0
local over = call('ZRANGEBYSCORE', s.ids or s.tenures, 0, s.ms, 'LIMIT', 0, 1000)
if s.ids then
  count = count - #over
elseif count > 0 and over[1] then
  for _, n in ipairs(call('HMGET', s.taken, unpack(over))) do
    count = count - (n or 1)
  end
end
return count == 0 and '' or permits_left(s) .. ' ' .. count .. ' '

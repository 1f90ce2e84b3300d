-- permits_inspect.lua tells how many permits of a semaphore are taken, see permits.lua. It changes nothing, and does not
-- count permits whose leases are over.
--
-- Reply: as of inspect.lua, with the number of permits as the hold count, and without a holder.

local call, pcall = redis.call, redis.pcall

--include holders.lua

--include number.lua

--include permits.lua

if refused then
  return redis.error_reply(refused)
end

local key, count = with_ids and ids or tenures, (with_ids or free) and taken_now() or 0
local over = call('ZRANGEBYSCORE', key, 0, digits(now), 'LIMIT', 0, 1000)
if with_ids then
  count = count - #over
elseif count > 0 and over[1] then
  for _, n in ipairs(call('HMGET', taken, unpack(over))) do
    count = count - (n or 1)
  end
end
local first_end = call('ZRANGEBYSCORE', key, '(' .. digits(now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
local left = first_end and first_end ~= endless and math.max(1, first_end - math.ceil(server / 1000)) or -1
return count == 0 and '' or digits(left) .. ' ' .. digits(count) .. ' '

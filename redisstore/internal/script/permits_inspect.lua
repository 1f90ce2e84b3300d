-- permits_inspect.lua tells how many permits of a semaphore are taken, see permits.lua.
--
-- Reply: as of inspect.lua, with the number of permits as the hold count, and without a holder.

local call, pcall = redis.call, redis.pcall

--include holders.lua

--include number.lua

--include permits_id.lua

--include permits.lua

if refused then
  return redis.error_reply(refused)
end

if reclaim() then
  share('-')
end
local count, left = taken_now(), -1
local first_end = call('ZRANGE', with_ids and ids or tenures, 0, 0, 'WITHSCORES')[2]
if first_end and first_end ~= endless then
  left = math.max(1, first_end - math.ceil(server / 1000))
end
return count == 0 and '' or digits(left) .. ' ' .. digits(count) .. ' '

-- permits_break.lua ends all tenures of a semaphore, see permits.lua, and sends the message "broken"
-- to the agents of the first thousand. The others learn of it by their next renewal. It gives back all permits
-- that are known to be taken. A semaphore that is not set stays so.
--
-- ARGV[7]  who breaks, as one word
--
-- Reply: as of break.lua.

local call, pcall = redis.call, redis.pcall

--include holders.lua

--include number.lua

--include permits_id.lua

--include permits.lua

--include permits_tenures.lua

--include permits_share.lua

if refused then
  return redis.error_reply(refused)
end

reclaim()
local at = digits((shows()))
if not free then
  return at .. ' 0'
end
local back = taken_now()
for _, tenure in ipairs(call('ZRANGE', tenures, 0, 999)) do
  local agent = string.match(tenure, '^(.*):%d+$')
  if agent then
    pcall('PUBLISH', 'lockagent_agent:' .. agent, kind .. ' broken ' .. tenure .. ' ' .. at .. ' ' .. ARGV[7] .. ' ' .. lock)
  end
end
if with_ids then
  call('DEL', ids)
end
call('DEL', tenures, taken)
if back > 0 then
  free = call('INCRBY', lock, digits(back))
end
share('-')
return at .. (back > 0 and ' 1' or ' 0')

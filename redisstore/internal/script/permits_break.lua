-- permits_break.lua ends all tenures of a semaphore, see permits.lua, and sends the message "broken"
-- to the agents of the first thousand. The others learn of it by their next renewal. It gives back all permits
-- that are known to be taken. A semaphore that is not set stays so.
--
-- ARGV[7]  who breaks, as one word
-- ARGV[8]  the incarnation that the agent knows, see acquire.lua
--
-- Reply: as of break.lua.

local call, pcall = redis.call, redis.pcall
local seen = call('TIME')

--include grace.lua

--include permits.lua

local time = clock_read(ARGV[6], seen)
local refused = grace_refuses(time, ARGV[8])
if refused then
  return refused
end
local s, err = permits_read(KEYS[1], ARGV, seen)
if err then
  return redis.error_reply(err)
end
local back = permits_reclaim(s)
local at = clock_shows(time)
local taken = s.free and permits_taken(s) or 0
for _, who in ipairs(taken > 0 and call('ZRANGE', s.tenures, 0, 999) or {}) do
  ways_tell(string.match(who, '^([^:]*)'), s.kind .. 'broken ' .. who .. ' ' .. at .. ' ' .. ARGV[7] .. ' ' .. s.name)
end
if taken > 0 then
  call('DEL', unpack({s.tenures, s.taken, s.ids}))
  s.free = call('INCRBY', s.name, taken)
end
if taken > 0 or back then
  permits_wake(s)
  permits_next(s)
end
return at .. (taken > 0 and ' 1' or ' 0')

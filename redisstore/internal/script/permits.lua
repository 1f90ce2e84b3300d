-- permits.lua is a part of the scripts for semaphores. It needs number.lua and permits_id.lua before it.
--
-- KEYS[1]  the number of free permits: Redisson's. Absent if nobody has set it
-- Then all other keys that the script uses, see permits.go. While their slot migrates, a node runs the script
-- only if it has all keys that are declared. If one were not, it might be at the other node, and the
-- script would miss a change or a tenure.
-- ARGV[1]  "semaphore" or "permits"
-- ARGV[2]  how messages travel, see release.lua
-- ARGV[3]  the suffix of our keys, such as ":{a}"
-- ARGV[4]  the suffix of Redisson's channels
-- ARGV[5]  {a}:timeout, Redisson's zset of the ids of the permits that are taken, each with the end
--          of its lease in ms. Only of the kind "permits"
-- ARGV[6]  the name of the clock, see acquire.lua
--
-- Our keys:
--   lockagent_permits:{a}  zset: the tenures that have permits, with the end of their leases in ms
--   lockagent_tenures:{a}  the same of the kind "permits". So the keys tell the kind
--   lockagent_taken:{a}    hash: the numbers of permits that they have. Under "+" the sum of what they have beyond 1
--   lockagent_queue:{a}    zset: the tenures that wait, with the times of their places. Those that are passed over are at
--                          the end, with over_score + the number of permits that they want
--   lockagent_wanted:{a}   hash: the numbers of permits that they want. After it, the place of one that is passed over
--
-- A key of another type must not leave a change half done. So what is written first is what may fail.

local lock = KEYS[1]
local kind, room, suffix, ids = ARGV[1], ARGV[2], ARGV[3], ARGV[5]
local channel, with_ids = 'redisson_sc' .. ARGV[4], ARGV[1] == 'permits'
local tenures = (with_ids and 'lockagent_tenures' or 'lockagent_permits') .. suffix
local taken, queue, wanted = 'lockagent_taken' .. suffix, 'lockagent_queue' .. suffix, 'lockagent_wanted' .. suffix
--include old_ways.lua
local endless = '922337203685477' -- Redisson's score of a permit without a lease

local time = call('TIME')
local server, most = time[1] * 1000000 + time[2], 9007199254740991
local now, clock = math.floor(server / 1000), server -- in ms, in microseconds
local ahead = pcall('GETRANGE', 'lockagent_ahead' .. string.sub(ARGV[6], 16), '0', '-1')
ahead = type(ahead) == 'string' and string.find(ahead, '^%d+$') and server + ahead <= most and ahead or '0'
clock = server + ahead

local function digits(n) return string.format('%.0f', n) end

-- refused is the text of the error if the name is not a semaphore of this kind. If the number is gone, so are the
-- tenures. Redisson's ids are not. A renewal does not declare the keys of the other kind, see permits_renew.lua.
local free, refused = number_of(lock, 18) -- as much as the count of a latch may have
local other = with_ids and 'semaphore' or 'permits'
local their_tenures = (with_ids and 'lockagent_permits' or 'lockagent_tenures') .. suffix
if free and pcall('EXISTS', their_tenures) == 1 or not with_ids and pcall('EXISTS', ids) == 1 then
  refused = refused or 'KIND ' .. other
end
if free and #free > 15 then
  refused, free = refused or 'WRONGTYPE the number is too great', nil
end
free = free and tonumber(free)

-- The number of permits that tenures have.
local function ours_now()
  return call('ZCARD', tenures) + (call('HMGET', taken, '+')[1] or 0)
end

-- The number of all permits: those that are free, and those that are known to be taken.
local function taken_now()
  return with_ids and call('ZCARD', ids) or ours_now()
end
local function total() return digits(free + taken_now()) end

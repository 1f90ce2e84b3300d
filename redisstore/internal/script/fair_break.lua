-- fair_break.lua frees a fair lock, whatever tenure or program has it. It hands the lock on to the first
-- place, see fair.lua, and sends the message of break.lua to the agent of the tenure.
--
-- KEYS[1]  the lock: a hash
-- ARGV[1]  how messages travel, see release.lua
-- ARGV[2]  the name of the clock, see acquire.lua
-- ARGV[3]  the suffix of our own keys of the lock, such as ":{a}"
-- ARGV[4]  who breaks the lock, as one word
-- ARGV[5]  "fair"
-- ARGV[6]  the lock's channel
--
-- Reply: as that of break.lua.

local call, pcall = redis.call, redis.pcall
local lock, room = KEYS[1], ARGV[1]
local time = call('TIME')
local message_kind, held_as = 'fair ', '3' -- see kinds.lua

--include broken.lua

local clock = at + 0

--include begin.lua

--include fair.lua

local suffix = string.sub(ARGV[2], 16)
local ahead = pcall('GETRANGE', 'lockagent_ahead' .. suffix, '0', '-1')
ahead = type(ahead) == 'string' and ahead ~= '' and ahead or '0'
local fair = fair_lock(lock, ARGV[3])
if not hand_on(fair, function(place) return begin('lockagent_ahead' .. suffix, ahead, lock, place) end, '-') then
  pcall(publish, ARGV[6], '0')
end
return at .. ' 1'
